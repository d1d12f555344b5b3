// fewer: shrink mode in C++; PE 1 kills itself.
//
//     SHMEM_FT_SUBSTITUTE=shrink SHMEM_FT_ROLLBACK=none oshrun -n 4 --mode raid5 ./fewer
#include <shmem.h>
#include <shmem_ft.h>

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

// A team that ends with its scope.
class Team {
  public:
    explicit Team(shmem_team_t parent) {
        if (shmemx_ft_shrink(parent, &team) != SHMEM_FT_SUCCESS)
            std::abort();
    }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;
    ~Team() { shmem_team_destroy(team); }
    operator shmem_team_t() const { return team; }

  private:
    shmem_team_t team = SHMEM_TEAM_INVALID;
};

std::vector<int> failed(shmem_team_t team) {
    int *pes = nullptr;
    std::size_t n = 0;
    CHECK(shmemx_ft_failed(team, &pes, &n) == SHMEM_FT_SUCCESS);
    std::unique_ptr<int, decltype(&std::free)> owner(pes, &std::free);
    return std::vector<int>(pes, pes + n);
}

void acknowledge() {
    int *pes = nullptr, *status = nullptr;
    std::size_t n = 0;
    shmem_query_fault(&pes, &status, &n);
    CHECK(n == 1 && pes[0] == lost_pe && status[0] == SHMEM_FT_PE_FAILED);
    shmem_restart_pes(pes, n);
    std::free(pes);
    std::free(status);
}

template <typename T>
T *symmetric(std::size_t count) {
    return static_cast<T *>(shmem_calloc(count, sizeof(T)));
}

void run() {
    std::vector<int> told;
    shmemx_ft_on_fault(
        [](int pe, int, void *to) { static_cast<std::vector<int> *>(to)->push_back(pe); }, &told);
    const int me = shmem_my_pe(), pes = shmem_n_pes();
    double *cells = symmetric<double>(8), *copies = symmetric<double>(8);
    std::iota(cells, cells + 8, 10.0 * me);
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
    CHECK(shmemx_ft_double_get(got, cells, 2, lost_pe) == SHMEM_FT_FAILURE && got[1] == 0);
    CHECK(shmemx_ft_double_iget(got, cells, 1, 2, 4, 0) == SHMEM_FT_SUCCESS && got[3] == 6);
    CHECK(shmemx_ft_get(got, cells, sizeof got, 2) == SHMEM_FT_SUCCESS && got[0] == 20);
    std::uint64_t number = 0;
    CHECK(shmemx_ft_get_checkpoint(got, cells, sizeof got, lost_pe, &number) == SHMEM_FT_SUCCESS);
    CHECK(number == 1 && got[0] == 10 && got[3] == 13);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS); // of the survivors
    CHECK(shmemx_ft_get_checkpoint(got, cells, sizeof got, lost_pe, &number) == SHMEM_FT_FAILURE);
    CHECK(shmemx_ft_get_checkpoint(got, cells, sizeof got, 2, &number) == SHMEM_FT_SUCCESS);
    CHECK(number == 2 && got[3] == 23);
    Team living(SHMEM_TEAM_WORLD);
    CHECK(shmemx_ft_shadow(living, shmem_team_my_pe(living)) >= 0);
    CHECK(shmem_team_n_pes(living) == pes - 1 && failed(living).empty());
    if (me == 0) {
        CHECK(shmemx_ft_put2(copies, cells, 8 * sizeof *cells, 2, 3) == SHMEM_FT_SUCCESS);
        CHECK(shmemx_ft_put2(copies, cells, sizeof *cells, lost_pe, 3) == SHMEM_FT_FAILURE);
    }
    CHECK(shmem_team_sync(living) == 0);
    CHECK(copies[7] == (me == 0 ? 0 : 7));
    long *sum = symmetric<long>(2);
    sum[1] = failures;
    CHECK(shmem_sum_reduce(living, sum, sum + 1, 1) == 0);
    if (me == 0 && *sum == 0)
        std::puts("fewer: ok");
    if (*sum != 0)
        shmem_global_exit(1);
}

} // namespace

int main() {
    shmem_init();
    run();
    shmem_finalize();
}
