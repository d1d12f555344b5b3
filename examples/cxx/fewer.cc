// fewer: shrink mode in C++; PE 1 kills itself.
//
//     SHMEM_FT_SUBSTITUTE=shrink SHMEM_FT_ROLLBACK=none oshrun -n 4 --mode raid5 ./fewer
#include <shmem_ft.hpp>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

namespace {

constexpr int lost_pe = 1;

long failures;

void check(bool holds, const char *what, int line) {
    if (!holds) {
        failures++;
        std::fprintf(stderr, "PE %d: line %d: %s\n", shmem_my_pe(), line, what);
    }
}
#define CHECK(...) check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __LINE__)

shmem::Team shrink(shmem_team_t team) {
    shmem_team_t living = SHMEM_TEAM_INVALID;
    CHECK(shmemx_ft_shrink(team, &living) == SHMEM_FT_SUCCESS);
    return shmem::Team(living);
}

std::vector<int> failed(shmem_team_t team) {
    int *pes = nullptr;
    std::size_t n = 0;
    CHECK(shmemx_ft_failed(team, &pes, &n) == SHMEM_FT_SUCCESS);
    std::unique_ptr<int, decltype(&std::free)> owner(pes, &std::free);
    return std::vector<int>(pes, pes + n);
}

void acknowledge() {
    std::vector<shmem::ft::Loss> losses = shmem::ft::losses();
    CHECK(losses.size() == 1 && losses[0].pe == lost_pe);
    CHECK(losses[0].status == SHMEM_FT_PE_FAILED);
    shmem::ft::restart();
}

void run() {
    std::vector<int> told;
    shmemx_ft_on_fault(
        [](int pe, int, void *to) { static_cast<std::vector<int> *>(to)->push_back(pe); }, &told);
    const int me = shmem_my_pe(), pes = shmem_n_pes();
    shmem::Array<double> cells(8), copies(8);
    double *own = cells.data();
    std::iota(cells.begin(), cells.end(), 10.0 * me);
    CHECK(failed(SHMEM_TEAM_WORLD).empty());
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    int bits = 6 | 1 << me;
    CHECK(shmemx_ft_agree(SHMEM_TEAM_WORLD, &bits) == SHMEM_FT_SUCCESS && (bits & 6) == 6);
    if (me == lost_pe)
        std::raise(SIGKILL);
    for (int known = 0; !known;) { // until all PEs know
        known = !failed(SHMEM_TEAM_WORLD).empty();
        shmemx_ft_agree(SHMEM_TEAM_WORLD, &known);
    }
    CHECK(failed(SHMEM_TEAM_WORLD) == std::vector<int>{lost_pe});
    CHECK(shmemx_ft_agree(SHMEM_TEAM_WORLD, &bits) == SHMEM_FT_FAILURE);
    CHECK(told == std::vector<int>{lost_pe} && shmemx_ft_faulted());
    acknowledge();
    CHECK(!shmemx_ft_faulted());
    double got[4] = {7, 7, 7, 7};
    CHECK(shmemx_ft_double_get(got, own, 2, lost_pe) == SHMEM_FT_FAILURE && got[1] == 0);
    CHECK(shmemx_ft_double_iget(got, own, 1, 2, 4, 0) == SHMEM_FT_SUCCESS && got[3] == 6);
    CHECK(shmemx_ft_get(got, own, sizeof got, 2) == SHMEM_FT_SUCCESS && got[0] == 20);
    std::uint64_t number = 0;
    CHECK(shmemx_ft_get_checkpoint(got, own, sizeof got, lost_pe, &number) == SHMEM_FT_SUCCESS);
    CHECK(number == 1 && got[0] == 10 && got[3] == 13);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS); // of the survivors
    CHECK(shmemx_ft_get_checkpoint(got, own, sizeof got, lost_pe, &number) == SHMEM_FT_FAILURE);
    CHECK(shmemx_ft_get_checkpoint(got, own, sizeof got, 2, &number) == SHMEM_FT_SUCCESS);
    CHECK(number == 2 && got[3] == 23);
    shmem::Team living = shrink(SHMEM_TEAM_WORLD);
    CHECK(shmemx_ft_shadow(living, living.me()) >= 0);
    CHECK(living.size() == pes - 1 && failed(living).empty());
    if (me == 0) {
        CHECK(shmemx_ft_put2(copies.data(), own, 8 * sizeof *own, 2, 3) == SHMEM_FT_SUCCESS);
        CHECK(shmemx_ft_put2(copies.data(), own, sizeof *own, lost_pe, 3) == SHMEM_FT_FAILURE);
    }
    CHECK(shmem_team_sync(living) == 0);
    CHECK(copies[7] == (me == 0 ? 0 : 7));
    shmem::Array<long> sum(2);
    sum[1] = failures;
    CHECK(shmem_sum_reduce(living, &sum[0], &sum[1], 1) == 0);
    if (me == 0 && sum[0] == 0)
        std::puts("fewer: ok");
    if (sum[0] != 0)
        shmem_global_exit(1);
}

} // namespace

int main() {
    shmem::Session session;
    run();
}
