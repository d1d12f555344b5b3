/*
 * constants: read-only data is symmetric: the source of a get, of an atomic fetch and of every
 * collective. A loss in between changes none of it.
 *
 * Constants lie in two kinds of memory: those that hold addresses are first written by the loader.
 * The result of every call is compared in each round, before and after a restart.
 */
#include "test.h"

/* Between a death and the restart calls return nothing. */
#define SAYS(what) CHECK((what) || shmemx_ft_faulted())

enum { ROUNDS = 6, MOST = 8 };

static const long table[2 * MOST] = {11, 12, 13, 14, 15, 16, 17, 18,
                                     19, 20, 21, 22, 23, 24, 25, 26};
static const char *const names[] = {"none", "one"};
static const int number = 42;

static long round_, dest[MOST * MOST], sync_[SHMEM_ALLTOALL_SYNC_SIZE];

static void transfers(int pe) {
    long got[4] = {0}, later = 0, fetched = 0;
    const char *name = NULL;
    shmem_long_get(got, table + 1, 3, pe);
    SAYS(got[0] == 12 && got[1] == 13 && got[2] == 14);
    shmem_long_iget(got, table, 1, 2, 3, pe);
    SAYS(got[0] == 11 && got[1] == 13 && got[2] == 15);
    shmem_long_ibget(got, table, 2, 3, 2, 2, pe);
    SAYS(got[0] == 11 && got[1] == 12 && got[2] == 14 && got[3] == 15);
    SAYS(shmem_int_g(&number, pe) == 42);
    shmem_getmem(&name, names + 1, sizeof name, pe);
    SAYS(name == names[1] && name && !strcmp(name, "one"));
    SAYS(shmem_long_atomic_fetch(table + 5, pe) == 16);
    shmem_long_get_nbi(&later, table + 6, 1, pe);
    shmem_long_atomic_fetch_nbi(&fetched, table + 7, pe);
    shmem_quiet();
    SAYS(later == 17 && fetched == 18);
    shmem_long_put(dest, table, 2, pe);
    SAYS(shmem_addr_accessible(table, pe) && shmem_ptr(table, pe) == table);
}

static void collectives(int n) {
    shmem_team_t all = SHMEM_TEAM_WORLD;
    SAYS(!shmem_long_broadcast(all, dest, table, 4, 1) && dest[3] == 14);
    SAYS(!shmem_long_fcollect(all, dest, table, 2) && dest[2 * n - 1] == 12);
    SAYS(!shmem_long_collect(all, dest, table + 1, 1) && dest[n - 1] == 12);
    SAYS(!shmem_long_alltoall(all, dest, table, 1) && dest[0] == 11 + shmem_my_pe());
    SAYS(!shmem_long_alltoalls(all, dest, table, 1, 2, 1) && dest[n - 1] == 11 + 2 * shmem_my_pe());
    SAYS(!shmem_long_sum_reduce(all, dest, table, 2) && dest[1] == 12 * n);
    SAYS(!shmem_long_sum_inscan(all, dest, table, 1) && dest[0] == 11 * (shmem_my_pe() + 1));
    shmem_fcollect64(dest, table, 1, 0, 0, n, sync_);
    SAYS(dest[n - 1] == 11);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    int n = shmem_n_pes();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (round_ == ROUNDS)
            break;
        round_++;
        for (int pe = 0; pe < n; pe++)
            transfers((shmem_my_pe() + pe) % n);
        shmem_barrier_all();
        collectives(n);
    }
    if (shmem_my_pe() == 0)
        printf("constants ok\n");
    shmem_finalize();
    return 0;
}
