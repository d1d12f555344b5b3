/*
 * local_rollback: transfers, waits for one word, collectives and the heap, in a program of
 * local_rollback.h.
 *
 * what: plain     logged calls (the default)
 *       unlogged  also an unlogged one, in round 5
 *       varied    a substitute puts a different value than the original
 *       large     more than a small log holds, in round 5
 *       needed    in round 5 PE 1 dies in a barrier, or right before it, and PE 0 needs data from
 *                 it before it gets there
 */
#include "local_rollback.h"

enum { WORDS = 40, LARGE = 1 << 20 };

static long flag, box[WORDS], wide[2 * WORDS], got[WORDS], sums[4], parts[64];
static long mine[64], blocks[64], token, process;
static char large[LARGE], filled[LARGE];

/* PE 0 kills the original of PE 1 while that waits in the barrier, and then reads from it. */
static void need(struct own *own) {
    process = getpid();
    CALL(shmem_barrier_all());
    if (own->me == 0) {
        long victim = CALL(shmem_long_g(&process, 1));
        usleep(30000); /* both cases must work; this delay aims at the second */
        kill((pid_t)victim, SIGKILL);
        while (!kill((pid_t)victim, 0))
            usleep(100);
        CHECK(CALL(shmem_long_g(&token, 1)) == token);
    }
    CALL(shmem_barrier_all());
}

static void turn(struct own *own) {
    int me = own->me, n = own->n, right = (me + 1) % n, left = (me + n - 1) % n;
    for (int i = 0; i < WORDS; i++)
        got[i] = value * 31 + i + round_;
    if (is(own, "varied") && !own->dies && round_ > 3 && me == own->victim)
        got[3]++;
    CALL(shmem_long_put(box, got, WORDS, right));
    CALL(shmem_long_iput(wide, got, 2, 1, WORDS, right));
    CALL(shmem_fence());
    CALL(shmem_long_p(&flag, round_ + 1, right));
    CALL(shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round_ + 1));
    for (int i = 0; i < WORDS; i++)
        value = value * 7 + box[i] + wide[2 * i];
    CALL(shmem_quiet());
    CALL(shmem_barrier_all());
    token = value;
    CALL(shmem_barrier_all());
    CALL(shmem_long_get(got, &token, 1, left));
    value += got[0] + CALL(shmem_long_g(&token, right));
    CALL(shmem_long_iget(got, box, 1, 2, WORDS / 2, left));
    value += got[1];
    mine[0] = value;
    CALL(shmem_long_broadcast(SHMEM_TEAM_WORLD, parts, mine, 1, (int)(round_ % n)));
    value += parts[0];
    for (int i = 0; i < n; i++)
        mine[i] = value + i;
    CALL(shmem_long_fcollect(SHMEM_TEAM_WORLD, parts, mine, 1));
    CALL(shmem_long_alltoall(SHMEM_TEAM_WORLD, blocks, mine, 1));
    for (int i = 0; i < n; i++)
        value = value * 3 + parts[i] + blocks[i];
    mine[0] = value;
    CALL(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, mine, 1));
    CALL(shmem_long_max_reduce(SHMEM_TEAM_WORLD, sums + 1, mine, 1));
    CALL(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, sums + 2, mine, 1));
    CALL(shmem_long_sum_exscan(SHMEM_TEAM_WORLD, sums + 3, mine, 1));
    value += sums[0] + 3 * sums[1] + 5 * sums[2] + 7 * sums[3];
    long *block = CALL(shmem_malloc(sizeof(long) * 8));
    CHECK(block);
    CALL(shmem_long_p(block + 1, value, left));
    CALL(shmem_barrier_all());
    value ^= block[1];
    CALL(shmem_free(block));
    if (is(own, "unlogged") && round_ == 5) {
        int *lost = NULL;
        size_t count;
        CALL(shmemx_ft_failed(SHMEM_TEAM_WORLD, &lost, &count));
        free(lost);
    }
    token = round_;
    if (is(own, "needed") && round_ == 5)
        need(own);
    if (is(own, "large") && round_ == 5) {
        memset(filled, (int)round_, LARGE);
        CALL(shmem_putmem(large, filled, LARGE, right));
        CALL(shmem_putmem(large, filled, LARGE, right));
        CALL(shmem_barrier_all());
        CHECK(shmemx_ft_faulted() || large[LARGE - 1] == 5);
    }
}
