/*
 * ahead: small broadcasts and sums one after another, of roots that are ahead of PEs that pause.
 * Half of the broadcasts are too large for that, and meet.
 *
 * The root changes its source as soon as a call returns. At times it makes many small broadcasts
 * while one PE pauses for long. PE 0 prints `ahead ok`.
 */
#define _DEFAULT_SOURCE
#include "test.h"

#include <unistd.h>

enum { STEPS = 600, EVERY = 100, MOST = 512, PAUSE_MOST = 400, BURST = 150, LONG_PAUSE = 20000 };

static long sync_words[SHMEM_BCAST_SYNC_SIZE];
static unsigned char source[MOST], dest[MOST];
static long addend, sum;
static long step, wrong;

/* The byte of a step at an index. */
static unsigned char byte(long of, size_t at) {
    return (unsigned char)(31 * of + (long)at);
}

/* Broadcasts by the team of all, or by an active set of all; the root's own block is its source
 * with the latter. */
static void broadcast(uint64_t random) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    int root = step < STEPS / 2 ? n / 2 : (int)((random >> 8) % (unsigned)n);
    size_t bytes = (random >> 16) % (MOST / 8 + 1) * 8;
    int is_set = (random >> 30) % 3 == 0;
    if (me == root)
        for (size_t at = 0; at < bytes; at++)
            source[at] = byte(step, at);
    memset(dest, 0, MOST);
    if (is_set)
        shmem_broadcast64(dest, source, bytes / 8, root, 0, 0, n, sync_words);
    else
        shmem_broadcastmem(SHMEM_TEAM_WORLD, dest, source, bytes, root);
    memset(source, 0xff, MOST);
    for (size_t at = 0; at < MOST; at++)
        wrong += dest[at] != (at < bytes && !(is_set && me == root) ? byte(step, at) : 0);
}

/* Many small broadcasts of one root, while another PE pauses. */
static void burst(uint64_t random) {
    int me = shmem_my_pe(), n = shmem_n_pes(), root = (int)(random % (unsigned)n);
    if (me == (root + 1 + (int)((random >> 8) % (unsigned)(n - 1))) % n)
        usleep(LONG_PAUSE);
    for (long i = 0; i < BURST; i++) {
        addend = step * BURST + i;
        shmem_broadcastmem(SHMEM_TEAM_WORLD, &sum, &addend, sizeof sum, root);
        addend = -1;
        wrong += sum != step * BURST + i;
    }
}

static void add(void) {
    int n = shmem_n_pes();
    addend = step + shmem_my_pe();
    shmem_sum_reduce(SHMEM_TEAM_WORLD, &sum, &addend, 1);
    wrong += sum != n * step + (long)n * (n - 1) / 2;
}

int main(void) {
    shmem_init();
    for (int at = 0; at < SHMEM_BCAST_SYNC_SIZE; at++)
        sync_words[at] = SHMEM_SYNC_VALUE;
    for (;;) {
        if (step % EVERY == 0) {
            if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
                recover();
                continue;
            }
            CHECK(wrong == 0);
            if (step == STEPS)
                break;
        }
        uint64_t random = mixed(7, (uint64_t)step); /* alike on every PE */
        uint64_t own = mixed(random, (uint64_t)shmem_my_pe());
        if (own % 16 == 0)
            usleep((unsigned)((own >> 8) % PAUSE_MOST));
        if (step % EVERY == EVERY / 2)
            burst(random);
        else if (random % 5 == 0)
            add();
        else
            broadcast(random);
        step++;
    }
    if (shmem_my_pe() == 0)
        printf("ahead ok\n");
    shmem_finalize();
    return 0;
}
