// waves: a vibrating string, with a checkpoint for every ten steps. A PE may kill itself between
// two checkpoints: all PEs go back to the first of them.
//
//     oshrun -n 4 --mode raid5 ./waves          without a loss
//     oshrun -n 4 --mode raid5 ./waves 2 57     PE 2 kills itself in step 57
//
// Each PE has a part of the string. In each step it fetches the ends of the parts beside it, with
// the number of their step, and throws if a number is wrong: between a loss and the restart `run`
// drops this. Heights are integers, so the result is compared exactly with that of one PE.
#include <shmem_ft.hpp>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t points = 64; // of a PE
constexpr std::uint64_t steps = 200, every = 10;

using Height = std::int64_t;

Height first_height(std::size_t point) {
    return point % 32 < 8 ? 1 << 20 : 0;
}

Height next_height(Height before, Height left, Height now, Height right) {
    return 2 * now - before + (left - 2 * now + right) / 4;
}

std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// The outer point of a part, for the PE beside it.
struct End {
    std::uint64_t step; // from 1 on
    Height height;
};

struct Result {
    std::uint64_t wrong, checksum;
};

// A PE that kills itself at the beginning of a step.
struct Kill {
    int pe;
    std::uint64_t step;
};

class String {
public:
    // The team has all PEs in reverse order, so that its numbers differ from those of the job.
    String(const shmem::Session &session, Kill kill)
        : kill_(kill), me_(session.size() - 1 - session.me()), pes_(session.size()),
          first_(static_cast<std::size_t>(session.me()) * points), ends_(4),
          team_(SHMEM_TEAM_WORLD, pes_ - 1, -1, pes_), stream_(team_, SHMEM_CTX_PRIVATE),
          result_("waves.result") {
        for (int i = 0; i < 3; i++)
            layers_.push_back(shmem::Array<Height>(points)); // moved there
        for (std::size_t i = 0; i < points; i++)
            layers_[0][i] = layers_[2][i] = first_height(first_ + i);
    }

    // Makes a step of `run`; true after the last.
    bool go(std::uint64_t number) {
        if (number == steps) { // a step of its own, so that a loss repeats it
            check(number);
            return true;
        }
        if (kill_.step == number && kill_.pe == shmem_my_pe() && shmem_ft_algo_init())
            std::raise(SIGKILL);
        move(number);
        return false;
    }

    const Result &result() const { return *result_; }

private:
    void move(std::uint64_t number) {
        shmem::Array<Height> &next = layer(number + 1);
        const shmem::Array<Height> &now = layer(number), &before = layer(number + 2);
        // Two sets alternate: a PE beside this one may still read the other.
        const std::size_t set = number % 2 * 2;
        ends_[set] = {number + 1, now[0]};
        ends_[set + 1] = {number + 1, now[points - 1]};
        shmem_barrier_all();
        const Height left = me_ + 1 < pes_ ? fetch(set + 1, me_ + 1, number) : 0;
        const Height right = me_ > 0 ? fetch(set, me_ - 1, number) : 0;
        for (std::size_t i = 0; i < points; i++)
            next[i] = next_height(before[i], i > 0 ? now[i - 1] : left, now[i],
                                  i + 1 < points ? now[i + 1] : right);
    }

    // Compares with the whole string, computed by each PE for itself.
    void check(std::uint64_t number) {
        const std::size_t size = points * static_cast<std::size_t>(pes_);
        std::vector<Height> before(size), now(size), next(size);
        for (std::size_t i = 0; i < size; i++)
            before[i] = now[i] = first_height(i);
        for (std::uint64_t done = 0; done < number; done++) {
            for (std::size_t i = 0; i < size; i++)
                next[i] = next_height(before[i], i > 0 ? now[i - 1] : 0, now[i],
                                      i + 1 < size ? now[i + 1] : 0);
            before.swap(now);
            now.swap(next);
        }
        shmem::Array<std::uint64_t> mine(2), all(2);
        const shmem::Array<Height> &own = layer(number);
        for (std::size_t i = 0; i < points; i++) {
            mine[0] += own[i] != now[first_ + i];
            mine[1] += mix(mix(first_ + i + 1) ^ static_cast<std::uint64_t>(own[i]));
        }
        if (shmem_sum_reduce(team_, all.data(), mine.data(), 2) != 0)
            throw std::runtime_error("no sum over all PEs");
        *result_ = {all[0], all[1]};
    }

    // The number alone selects the layer: a restart would not undo a swap of arrays.
    shmem::Array<Height> &layer(std::uint64_t number) { return layers_[number % 3]; }

    Height fetch(std::size_t end, int pe, std::uint64_t number) {
        End got{};
        shmem_ctx_getmem(stream_, &got, &ends_[end], sizeof got, pe);
        if (got.step != number + 1)
            throw std::runtime_error("the part beside this one is in another step");
        return got.height;
    }

    const Kill kill_;
    const int me_, pes_; // in the team
    const std::size_t first_;
    std::vector<shmem::Array<Height>> layers_;
    shmem::Array<End> ends_;
    shmem::Team team_;
    shmem::Context stream_; // destroyed before its team
    shmem::ft::Protected<Result> result_;
};

} // namespace

int main(int argc, char **argv) {
    shmem::Session session;
    Kill kill{-1, 0};
    if (argc > 2)
        kill = {std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10)};
    String string(session, kill);
    shmem::ft::run([&](std::uint64_t number) { return string.go(number); }, every);
    const Result &result = string.result();
    if (session.me() == 0 && result.wrong)
        std::printf("waves: FAILED (%llu wrong)\n", static_cast<unsigned long long>(result.wrong));
    else if (session.me() == 0)
        std::printf("waves: ok checksum=%016llx\n",
                    static_cast<unsigned long long>(result.checksum));
    return result.wrong != 0;
}
