/*
 * local_rollback_teams: collectives of teams and active sets, splits, and contexts of teams, in a
 * program of local_rollback.h.
 *
 * The even PEs, the odd PEs and the rows of a grid are teams that live over checkpoints; a team of
 * all but the last PE is made and destroyed in each round, so that its slot is used again by
 * others. The active sets are all PEs but the first.
 */
#include "local_rollback.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { WORDS = 32 };

static long dest[WORDS], from[WORDS], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE], box, flag;
static long psync[SHMEM_ALLTOALL_SYNC_SIZE];
static shmem_team_t parity = SHMEM_TEAM_INVALID, row = SHMEM_TEAM_INVALID;

static void mix(long count) {
    for (long i = 0; i < count; i++)
        value = value * 31 + dest[i];
}

static void set(long first) {
    for (long i = 0; i < WORDS; i++)
        from[i] = value + first * i, dest[i] = 0;
}

/* The collectives of one team. */
static void of_team(struct own *own, shmem_team_t team) {
    int size = shmem_team_n_pes(team); /* -1 if a loss kept the team from being made */
    set(3);
    CALL(shmem_long_broadcast(team, dest, from, 2, size > 0 ? size - 1 : 0));
    mix(2);
    CALL(shmem_team_sync(team));
    CALL(shmem_long_fcollect(team, dest, from, 1));
    mix(size);
    CALL(shmem_long_collect(team, dest, from, 1 + shmem_team_my_pe(team) % 2));
    mix(size);
    CALL(shmem_long_alltoall(team, dest, from, 1));
    mix(size);
    CALL(shmem_long_sum_reduce(team, dest, from, 2));
    CALL(shmem_long_sum_inscan(team, dest + 2, from, 1));
    mix(3);
}

/* Puts through a context of a team. */
static void through_context(struct own *own, shmem_team_t team) {
    int size = shmem_team_n_pes(team), next = (shmem_team_my_pe(team) + 1) % size;
    shmem_ctx_t ctx;
    if (CALL(shmem_team_create_ctx(team, 0, &ctx)))
        return;
    CALL(shmem_ctx_long_p(ctx, &box, value, next));
    CALL(shmem_ctx_fence(ctx));
    CALL(shmem_ctx_long_atomic_add(ctx, &flag, 1, next));
    CALL(shmem_ctx_quiet(ctx));
    CALL(shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1));
    flag = 0;
    value = value * 7 + box;
    shmem_ctx_destroy(ctx);
    CALL(shmem_team_sync(team));
}

/* The collectives of an active set of all PEs but the first. */
static void of_set(struct own *own) {
    int size = own->n - 1;
    if (own->me == 0)
        return;
    set(5);
    CALL(shmem_long_sum_to_all(dest, from, 2, 1, 0, size, work, psync));
    mix(2);
    CALL(shmem_barrier(1, 0, size, psync));
    CALL(shmem_broadcast64(dest, from, 1, 0, 1, 0, size, psync));
    mix(1);
    CALL(shmem_sync(1, 0, size, psync));
}

static void turn(struct own *own) {
    if (parity == SHMEM_TEAM_INVALID) {
        int odd = own->me % 2, n = own->n;
        shmem_team_t even_ = SHMEM_TEAM_INVALID, odd_ = SHMEM_TEAM_INVALID, column;
        CALL(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &even_));
        CALL(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, n / 2, NULL, 0, &odd_));
        parity = odd ? odd_ : even_;
        CALL(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column));
        CALL(shmem_team_destroy(column));
    }
    of_team(own, parity);
    through_context(own, row);
    of_set(own);
    shmem_team_t most = SHMEM_TEAM_INVALID;
    CALL(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, own->n - 1, NULL, 0, &most));
    if (most != SHMEM_TEAM_INVALID)
        of_team(own, most);
    CALL(shmem_team_destroy(most));
    if (own->me % 2 == 0)
        of_team(own, parity); /* the others are ahead of the even PEs */
    CALL(shmem_long_p(&box, value, (own->me + 1) % own->n));
    CALL(shmem_barrier_all());
    value += box;
    CALL(shmem_barrier_all());
}
