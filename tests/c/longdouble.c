/* longdouble: the calls that pass a long double by value, and reductions that are exact to the last
 * bit of the significand (64 bits on x86-64, 113 on AArch64). */
#include "test.h"

#include <float.h>

static long double cell[3], sums[3], mine[2], all[2];

static void by_value(int me) {
    shmem_p(&cell[0], 1.5L, me);
    shmem_longdouble_p(&cell[1], -2.25L, me);
    shmem_ctx_longdouble_p(SHMEM_CTX_DEFAULT, &cell[2], 0x1p13000L, me);
    CHECK(shmem_g(&cell[0], me) == 1.5L);
    CHECK(shmem_longdouble_g(&cell[1], me) == -2.25L);
    CHECK(shmem_ctx_longdouble_g(SHMEM_CTX_DEFAULT, &cell[2], me) == 0x1p13000L);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    by_value(me);

    shmem_longdouble_sum_inscan(SHMEM_TEAM_WORLD, sums, cell, 3);
    for (int i = 0; i < 3; i++)
        CHECK(sums[i] == (me + 1) * cell[i]);

    mine[0] = me ? LDBL_EPSILON : 1; /* a double loses all but the 1 */
    mine[1] = -LDBL_MAX;
    shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, all, mine, 1);
    CHECK(all[0] == 1 + (n - 1) * LDBL_EPSILON && (n == 1 || all[0] > 1));
    mine[0] = 1 + me * LDBL_EPSILON;
    shmem_longdouble_max_reduce(SHMEM_TEAM_WORLD, all, mine, 2);
    CHECK(all[0] == 1 + (n - 1) * LDBL_EPSILON && all[1] == -LDBL_MAX);
    mine[0] = -mine[0];
    shmem_longdouble_min_reduce(SHMEM_TEAM_WORLD, all, mine, 2);
    CHECK(all[0] == -1 - (n - 1) * LDBL_EPSILON && all[1] == -LDBL_MAX);
    mine[0] = me ? -2 : LDBL_MIN;
    shmem_longdouble_prod_reduce(SHMEM_TEAM_WORLD, all, mine, 1);
    long double product = LDBL_MIN;
    for (int pe = 1; pe < n; pe++)
        product *= -2;
    CHECK(all[0] == product);

    shmem_barrier_all();
    if (me == 0)
        puts("longdouble ok");
    shmem_finalize();
    return 0;
}
