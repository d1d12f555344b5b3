/*
 * local_rollback_zero: every collective with zero elements, in a program of local_rollback.h.
 *
 * what: plain  team collectives, typed and by bytes (the default)
 *       sets   also those of active sets, in round 5
 */
#include "local_rollback.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { WORDS = 64, KEPT = 77 };

static long dest[WORDS], from[WORDS], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long sync_[SHMEM_ALLTOALLS_SYNC_SIZE];
static unsigned bits[WORDS];

#define W SHMEM_TEAM_WORLD
#define NONE(call) CHECK(CALL(call) == 0 || shmemx_ft_faulted())
#define SET 0, 0, n, sync_

static void teams(struct own *own) {
    NONE(shmem_team_sync(W));
    NONE(shmem_long_broadcast(W, dest, from, 0, 1));
    NONE(shmem_broadcastmem(W, dest, from, 0, 2));
    NONE(shmem_long_collect(W, dest, from, 0));
    NONE(shmem_collectmem(W, dest, from, 0));
    NONE(shmem_long_fcollect(W, dest, from, 0));
    NONE(shmem_fcollectmem(W, dest, from, 0));
    NONE(shmem_long_alltoall(W, dest, from, 0));
    NONE(shmem_alltoallmem(W, dest, from, 0));
    NONE(shmem_long_alltoalls(W, dest, from, 1, 1, 0));
    NONE(shmem_double_alltoalls(W, (double *)dest, (double *)from, 2, 3, 0));
    NONE(shmem_alltoallsmem(W, dest, from, 1, 1, 0));
    NONE(shmem_uint_and_reduce(W, bits, bits, 0));
    NONE(shmem_uint_or_reduce(W, bits, bits, 0));
    NONE(shmem_uint_xor_reduce(W, bits, bits, 0));
    NONE(shmem_long_max_reduce(W, dest, from, 0));
    NONE(shmem_long_min_reduce(W, dest, from, 0));
    NONE(shmem_long_sum_reduce(W, dest, from, 0));
    NONE(shmem_long_prod_reduce(W, dest, from, 0));
    NONE(shmem_long_sum_inscan(W, dest, from, 0));
    NONE(shmem_long_sum_exscan(W, dest, from, 0));
}

/* The collectives of active sets, over all PEs. */
static void sets(struct own *own) {
    int n = own->n;
    CALL(shmem_broadcast64(dest, from, 0, 1, SET));
    CALL(shmem_broadcast32(dest, from, 0, 1, SET));
    CALL(shmem_collect64(dest, from, 0, SET));
    CALL(shmem_collect32(dest, from, 0, SET));
    CALL(shmem_fcollect64(dest, from, 0, SET));
    CALL(shmem_fcollect32(dest, from, 0, SET));
    CALL(shmem_alltoall64(dest, from, 0, SET));
    CALL(shmem_alltoall32(dest, from, 0, SET));
    CALL(shmem_alltoalls64(dest, from, 1, 1, 0, SET));
    CALL(shmem_alltoalls32(dest, from, 1, 1, 0, SET));
    CALL(shmem_long_and_to_all(dest, from, 0, 0, 0, n, work, sync_));
    CALL(shmem_long_or_to_all(dest, from, 0, 0, 0, n, work, sync_));
    CALL(shmem_long_xor_to_all(dest, from, 0, 0, 0, n, work, sync_));
    CALL(shmem_long_max_to_all(dest, from, 0, 0, 0, n, work, sync_));
    CALL(shmem_long_min_to_all(dest, from, 0, 0, 0, n, work, sync_));
    CALL(shmem_long_sum_to_all(dest, from, 0, 0, 0, n, work, sync_));
    CALL(shmem_long_prod_to_all(dest, from, 0, 0, 0, n, work, sync_));
}

/* Calls that move nothing and involve no other PE. */
static void local(struct own *own) {
    CHECK(!CALL(shmem_malloc(0)) && !CALL(shmem_calloc(0, 8)) && !CALL(shmem_realloc(NULL, 0)));
    CALL(shmem_free(NULL));
    CALL(shmem_long_put(dest, from, 0, 0));
    CALL(shmem_long_get(from, dest, 0, 1));
    CALL(shmem_long_iput(dest, from, 1, 1, 0, 0));
    CALL(shmem_long_iget(from, dest, 1, 1, 0, 1));
    CALL(shmem_long_wait_until_all(dest, 0, NULL, SHMEM_CMP_EQ, 1));
}

static void turn(struct own *own) {
    for (int i = 0; i < WORDS; i++)
        dest[i] = KEPT, from[i] = value + i;
    CALL(shmem_barrier_all());
    teams(own);
    local(own);
    if (is(own, "sets") && round_ == 5)
        sets(own);
    for (int i = 0; i < WORDS; i++)
        CHECK(shmemx_ft_faulted() || dest[i] == KEPT);
    /* Zero on some PEs: the second and the fourth contribute nothing. */
    NONE(shmem_long_collect(W, dest, from, own->me % 2 ? 0 : 2));
    for (int i = 0; i < (own->n + 1) / 2 * 2; i++)
        value = value * 7 + dest[i];
    CALL(shmem_barrier_all());
}
