/* longdouble: the calls that pass a long double by value, and arithmetic on it, with one PE. */
#include <shmem.h>
#include <stdio.h>

static long double cell[3], sums[3];

int main(void) {
    int bad = 0;
    shmem_init();
    shmem_p(&cell[0], 1.5L, 0);
    shmem_longdouble_p(&cell[1], -2.25L, 0);
    shmem_ctx_longdouble_p(SHMEM_CTX_DEFAULT, &cell[2], 1e4000L, 0);
    bad += shmem_g(&cell[0], 0) != 1.5L;
    bad += shmem_longdouble_g(&cell[1], 0) != -2.25L;
    bad += shmem_ctx_longdouble_g(SHMEM_CTX_DEFAULT, &cell[2], 0) != 1e4000L;
    shmem_longdouble_sum_inscan(SHMEM_TEAM_WORLD, sums, cell, 3);
    for (int i = 0; i < 3; i++)
        bad += sums[i] != cell[i];
    printf(bad ? "longdouble: %d wrong\n" : "longdouble: ok\n", bad);
    shmem_finalize();
    return bad != 0;
}
