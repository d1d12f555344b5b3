/*
 * words: the library's state in symmetric words of the program is zero again after a call.
 *
 * In each round all PEs take a lock in turns, and every set of PEs makes every collective of active
 * sets; after each all compare the words of the lock, or of pSync, with zero (SHMEM_SYNC_VALUE).
 * Other programs check the calls' results. With `lost` PE 2 dies in round 2, and the others
 * continue without it.
 */
#include "test.h"

#include <signal.h>

enum { ROUNDS = 4, TURNS = 25, MOST = 8, LONG = 5000 };

static long lock, counter, round_number;
static long sync_words[SHMEM_SYNC_SIZE];
static long source[MOST * LONG], dest[MOST * LONG], work[LONG + SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static int lost;

/* A barrier that a loss interrupts says nothing of the words, until all PEs roll back. */
static int interrupted(void) {
    return !lost && shmemx_ft_faulted();
}

static void check(const char *call) {
    shmem_barrier_all();
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++)
        if (sync_words[i] != SHMEM_SYNC_VALUE && !interrupted()) {
            fprintf(stderr, "WRONG: PE %d: %s leaves %#lx in word %d of pSync\n", shmem_my_pe(),
                    call, sync_words[i], i);
            shmem_global_exit(WRONG);
        }
    shmem_barrier_all();
}

static void lock_in_turns(void) {
    for (int i = 0; i < TURNS; i++) {
        if (i % 3 || shmem_test_lock(&lock))
            shmem_set_lock(&lock);
        shmem_long_p(&counter, shmem_long_g(&counter, 0) + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(lock == 0 || interrupted());
    shmem_barrier_all();
}

#define OVER_SET(call, ...) \
    do { \
        if (is_member) \
            call(__VA_ARGS__, start, log, size, sync_words); \
        check(#call); \
    } while (0)
#define REDUCED(call, n) \
    do { \
        if (is_member) \
            call(dest, source, n, start, log, size, work, sync_words); \
        check(#call); \
    } while (0)

static void over(int start, int log, int size) {
    int me = shmem_my_pe(), from = me - start;
    int is_member = from >= 0 && from % (1 << log) == 0 && from >> log < size;
    if (is_member)
        shmem_barrier(start, log, size, sync_words);
    check("shmem_barrier");
    if (is_member)
        shmem_sync(start, log, size, sync_words);
    check("shmem_sync");
    for (int i = 0, n = 0; i < 3; i++, n = i == 1 ? 1 : LONG) {
        OVER_SET(shmem_broadcast64, dest, source, n, size - 1);
        OVER_SET(shmem_collect64, dest, source, n / (1 + me % 2));
        OVER_SET(shmem_fcollect32, dest, source, n);
        OVER_SET(shmem_alltoall64, dest, source, n / 2);
        OVER_SET(shmem_alltoalls32, dest, source, 2, 1, n / 2);
        REDUCED(shmem_long_sum_to_all, n);
        REDUCED(shmem_long_max_to_all, n);
    }
}

int main(int argc, char **argv) {
    shmem_init();
    int n = shmem_n_pes();
    lost = argc > 1 && !strcmp(argv[1], "lost");
    (void)shmem_ft_algo_init();
    for (;;) {
        if (!lost && shmem_checkpoint_all()) {
            recover();
            continue;
        }
        if (round_number == ROUNDS)
            break;
        if (lost && round_number == 2 && shmem_my_pe() == 2)
            raise(SIGKILL);
        if (!lost || round_number < 2) /* its home may be lost */
            lock_in_turns();
        over(0, 0, n);
        over(1, 0, n - 1);
        over(0, 1, (n + 1) / 2);
        round_number++;
    }
    if (shmem_my_pe() == 0)
        puts("words ok");
    shmem_finalize();
    return 0;
}
