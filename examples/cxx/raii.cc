// raii: a session, symmetric arrays, teams, contexts and locks that end with their scope; and the
// loop of a program that survives the death of its PEs.
//
// A histogram of random numbers: each PE adds to the bins of all, one round per checkpoint. Checked
// against a computation by one PE.
#include <shmem.h>
#include <shmem_ft.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

namespace shmem {

class Session {
public:
    Session() { shmem_init(); }
    ~Session() { shmem_finalize(); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    int me() const { return shmem_my_pe(); }
    int size() const { return shmem_n_pes(); }
};

// An array on every PE, created and freed collectively.
template <typename T>
class Array {
public:
    explicit Array(std::size_t count)
        : data_(static_cast<T *>(shmem_calloc(count, sizeof(T)))), count_(count) {
        if (!data_)
            throw std::bad_alloc();
    }
    T *data() { return data_.get(); }
    T *begin() { return data(); }
    T *end() { return data() + count_; }
    T &operator[](std::size_t at) { return data()[at]; }
    std::size_t size() const { return count_; }

private:
    struct Free {
        void operator()(T *block) const { shmem_free(block); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t count_;
};

class Team {
public:
    Team(shmem_team_t parent, int start, int stride, int size) {
        shmem_team_split_strided(parent, start, stride, size, nullptr, 0, &team_);
    }
    ~Team() { shmem_team_destroy(team_); }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    explicit operator bool() const { return team_ != SHMEM_TEAM_INVALID; }
    shmem_team_t get() const { return team_; }
    int size() const { return shmem_team_n_pes(team_); }

private:
    shmem_team_t team_ = SHMEM_TEAM_INVALID;
};

class Context {
public:
    explicit Context(long options) {
        if (shmem_ctx_create(options, &ctx_))
            ctx_ = SHMEM_CTX_DEFAULT;
    }
    ~Context() {
        shmem_ctx_quiet(ctx_);
        if (ctx_ != SHMEM_CTX_DEFAULT)
            shmem_ctx_destroy(ctx_);
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    shmem_ctx_t get() const { return ctx_; }

private:
    shmem_ctx_t ctx_ = SHMEM_CTX_INVALID;
};

class Guard {
public:
    explicit Guard(long &lock) : lock_(lock) { shmem_set_lock(&lock_); }
    ~Guard() { shmem_clear_lock(&lock_); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

private:
    long &lock_;
};

// Returns when the current state is saved, or the last saved state is restored.
inline void checkpoint() {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        int *pes = nullptr, *status = nullptr;
        std::size_t count = 0;
        shmem_query_fault(&pes, &status, &count);
        shmem_restart_pes(pes, count);
        shmem_barrier_all();
        std::free(pes);
        std::free(status);
    }
}

} // namespace shmem

namespace {

constexpr int rounds = 6, bins = 97, draws = 500;

struct State { // the state that a checkpoint restores
    long round;
    long *bin; // this PE's part of each bin
    long visits, lock;
};
State state;
bool done, good;

std::uint64_t drawn(long round, int pe, int i) {
    std::uint64_t x = (static_cast<std::uint64_t>(round) * 64 + pe) * draws + i;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void play(const shmem::Session &session) {
    shmem::Context stream(SHMEM_CTX_PRIVATE);
    for (int i = 0; i < draws; i++) {
        std::uint64_t x = drawn(state.round, session.me(), i);
        int pe = static_cast<int>(x % session.size());
        shmem_atomic_inc(stream.get(), &state.bin[x / 64 % bins], pe);
    }
    shmem::Guard guard(state.lock);
    long visits = shmem_g(&state.visits, 0);
    shmem_p(&state.visits, visits + 1, 0);
}

bool right(const shmem::Session &session) {
    std::vector<long> expected(bins);
    for (long round = 0; round < rounds; round++)
        for (int pe = 0; pe < session.size(); pe++)
            for (int i = 0; i < draws; i++)
                expected[drawn(round, pe, i) / 64 % bins]++;
    shmem::Array<long> sums(bins);
    shmem::Team team(SHMEM_TEAM_WORLD, session.size() - 1, -1, session.size());
    bool good = team && team.size() == session.size();
    good = good && shmem_sum_reduce(team.get(), sums.data(), state.bin, bins) == 0;
    for (int i = 0; i < bins; i++)
        good = good && sums[i] == expected[i];
    long all = std::accumulate(sums.begin(), sums.end(), 0L);
    good = good && all == static_cast<long>(draws) * rounds * session.size();
    good = good && shmem_g(&state.visits, 0) == static_cast<long>(rounds) * session.size();
    shmem_barrier_all();
    return good;
}

} // namespace

int main() {
    shmem::Session session;
    // One loop: a substitute starts here, and meets the other PEs in their current call.
    while (shmem::checkpoint(), !done) {
        if (!state.bin) {
            state.bin = static_cast<long *>(shmem_calloc(bins, sizeof(long)));
        } else if (state.round < rounds) {
            shmem_barrier_all();
            play(session);
            shmem_barrier_all();
            state.round++;
        } else {
            good = right(session);
            done = true;
        }
    }
    if (session.me() == 0 || !good)
        std::printf("raii: %s\n", good ? "ok" : "FAILED");
    return !good;
}
