// raii: a session, symmetric arrays, teams, contexts and locks that end with their scope; and the
// loop of a program that survives the death of its PEs.
//
// A histogram of random numbers: each PE adds to the bins of all, one round per checkpoint. Checked
// against a computation by one PE.
#include <shmem_ft.hpp>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

namespace {

constexpr int rounds = 6, bins = 97, draws = 500;

long visits, lock; // static, so every checkpoint has them

std::uint64_t drawn(std::uint64_t round, int pe, int i) {
    std::uint64_t x = (round * 64 + static_cast<std::uint64_t>(pe)) * draws +
                      static_cast<std::uint64_t>(i);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void play(const shmem::Session &session, shmem::Array<long> &bin, std::uint64_t round) {
    shmem::Context stream(SHMEM_CTX_PRIVATE);
    for (int i = 0; i < draws; i++) {
        std::uint64_t x = drawn(round, session.me(), i);
        int pe = static_cast<int>(x % static_cast<std::uint64_t>(session.size()));
        shmem_atomic_inc(stream, &bin[x / 64 % bins], pe);
    }
    shmem::Guard guard(lock);
    shmem_p(&visits, shmem_g(&visits, 0) + 1, 0);
}

bool right(const shmem::Session &session, const shmem::Array<long> &bin, long played) {
    std::vector<long> expected(bins);
    for (int round = 0; round < rounds; round++)
        for (int pe = 0; pe < session.size(); pe++)
            for (int i = 0; i < draws; i++)
                expected[drawn(static_cast<std::uint64_t>(round), pe, i) / 64 % bins]++;
    shmem::Array<long> sums(bins);
    shmem::Team team(SHMEM_TEAM_WORLD, session.size() - 1, -1, session.size());
    bool good = team && team.size() == session.size() && played == rounds * draws;
    good = good && shmem_sum_reduce(team, sums.data(), bin.data(), bins) == 0;
    for (std::size_t i = 0; i < bins; i++)
        good = good && sums[i] == expected[i];
    long all = std::accumulate(sums.begin(), sums.end(), 0L);
    good = good && all == static_cast<long>(draws) * rounds * session.size();
    good = good && shmem_g(&visits, 0) == static_cast<long>(rounds) * session.size();
    shmem_barrier_all();
    return good;
}

struct Own { // private to a PE
    long played;
    bool good;
};

} // namespace

int main() {
    shmem::Session session;
    shmem::Array<long> bin(bins); // this PE's part of each bin
    shmem::ft::Protected<Own> own("own");
    shmem::ft::run([&](std::uint64_t round) {
        if (round == rounds) { // in a step of its own, so that a loss repeats it
            own->good = right(session, bin, own->played);
            return true;
        }
        shmem_barrier_all();
        play(session, bin, round);
        shmem_barrier_all();
        own->played += draws;
        return false;
    });
    if (session.me() == 0 || !own->good)
        std::printf("raii: %s\n", own->good ? "ok" : "FAILED");
    return !own->good;
}
