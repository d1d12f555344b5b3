/* collectives: data movement, reductions and scans over all PEs. */
#include "check.h"

#include <complex.h>

enum { N = 5, MAX_PES = 64 };
static long source[N * MAX_PES], dest[N * MAX_PES * MAX_PES];
static double complex numbers[2], product[2];
static long double wide, widest;
static int me, n_pes;

static long value(int pe, long i) {
    return 10000L * pe + i;
}

static void fill(void) {
    shmem_barrier_all();
    memset(dest, 0, sizeof dest);
    for (long i = 0; i < N * n_pes; i++)
        source[i] = value(me, i);
    shmem_barrier_all();
}

static void movement(void) {
    fill();
    for (int root = 0; root < n_pes; root++) {
        CHECK(shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, N, root) == 0);
        for (int i = 0; i < N; i++)
            CHECK(dest[i] == value(root, i));
    }
    fill();
    CHECK(shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, N) == 0);
    for (long i = 0; i < N * n_pes; i++)
        CHECK(dest[i] == value((int)(i / N), i % N));
    fill(); /* PE p contributes p + 1 elements */
    CHECK(shmem_long_collect(SHMEM_TEAM_WORLD, dest, source, (size_t)me % N + 1) == 0);
    for (long at = 0, pe = 0; pe < n_pes; pe++)
        for (long i = 0; i <= pe % N; i++, at++)
            CHECK(dest[at] == value((int)pe, i));
    fill();
    CHECK(shmem_long_alltoall(SHMEM_TEAM_WORLD, dest, source, N) == 0);
    for (long i = 0; i < N * n_pes; i++)
        CHECK(dest[i] == value((int)(i / N), me * N + i % N));
    fill();
    CHECK(shmem_long_alltoalls(SHMEM_TEAM_WORLD, dest, source, 3, 1, N) == 0);
    for (long i = 0; i < 3 * N * n_pes; i++)
        CHECK(dest[i] == (i % 3 ? 0 : value((int)(i / 3 / N), me * N + i / 3 % N)));
    shmem_barrier_all();
}

static void reductions(void) {
    fill();
    CHECK(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, dest, source, N) == 0);
    CHECK(shmem_long_max_reduce(SHMEM_TEAM_WORLD, dest + N, source, N) == 0);
    CHECK(shmem_long_min_reduce(SHMEM_TEAM_WORLD, dest + 2 * N, source, N) == 0);
    for (long i = 0; i < N; i++) {
        CHECK(dest[i] == 10000L * n_pes * (n_pes - 1) / 2 + n_pes * i);
        CHECK(dest[N + i] == value(n_pes - 1, i) && dest[2 * N + i] == i);
    }
    CHECK(shmem_uint64_xor_reduce(SHMEM_TEAM_WORLD, (uint64_t *)dest, (uint64_t *)source, 1) == 0);
    uint64_t all = 0;
    for (int pe = 0; pe < n_pes; pe++)
        all ^= (uint64_t)value(pe, 0);
    CHECK((uint64_t)dest[0] == all);
    numbers[0] = me % 2 ? 2.0 : I;
    numbers[1] = 1.0 + (double)me * I;
    wide = 0.25L * (me + 1);
    shmem_barrier_all();
    double complex expected = 1.0;
    for (int pe = 0; pe < n_pes; pe++)
        expected *= pe % 2 ? 2.0 : I;
    CHECK(shmem_complexd_prod_reduce(SHMEM_TEAM_WORLD, product, numbers, 1) == 0);
    CHECK(product[0] == expected);
    CHECK(shmem_longdouble_max_reduce(SHMEM_TEAM_WORLD, &widest, &wide, 1) == 0);
    CHECK(widest == 0.25L * n_pes);
    shmem_barrier_all();
}

static void scans(void) {
    fill();
    CHECK(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, dest, source, N) == 0);
    CHECK(shmem_long_sum_exscan(SHMEM_TEAM_WORLD, dest + N, source, N) == 0);
    for (long i = 0; i < N; i++) {
        long before = 10000L * me * (me - 1) / 2 + me * i;
        CHECK(dest[N + i] == before && dest[i] == before + value(me, i));
    }
    CHECK(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, source, source, N) == 0); /* in place */
    CHECK(memcmp(source, dest, N * sizeof *dest) == 0);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    movement();
    reductions();
    scans();
    shmem_sync_all();
    return end_of("collectives");
}
