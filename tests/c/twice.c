/*
 * twice: PEs die in the midst of updating two copies, one after the other.
 *
 *     twice SEED LATEST     a thread of the victim kills it up to LATEST nanoseconds from the start
 *
 * Copies are on PEs 0 and 2; every other PE in turn updates them, and behind them a mark, until it
 * dies. One of both copies is whole then, and both are as new as either mark says.
 */
#include "test.h"

#include "kill_later.h"

#include <pthread.h>

enum { WORDS = 1 << 15, HOME = 0, SHADOW = 2 };

static long copy[WORDS], own[WORDS], mark, least, most, marks[2];

static void update(long number) {
    for (int i = 0; i < WORDS; i++)
        own[i] = number;
    CHECK(shmemx_ft_put2(copy, own, sizeof own, HOME, SHADOW) == SHMEM_FT_SUCCESS);
    CHECK(shmemx_ft_put2(&mark, &number, sizeof number, HOME, SHADOW) == SHMEM_FT_SUCCESS);
}

/* What the copies are: looked at by PE 0 when all know that the writer is dead. */
static int look(void) {
    least = most = copy[0];
    for (int i = 0; i < WORDS; i++) {
        least = copy[i] < least ? copy[i] : least;
        most = copy[i] > most ? copy[i] : most;
    }
    shmem_barrier_all();
    if (shmem_my_pe() != HOME)
        return 0;
    long there[2] = {shmem_long_g(&least, SHADOW), shmem_long_g(&most, SHADOW)};
    long marked = shmem_long_g(&mark, SHADOW);
    marked = mark > marked ? mark : marked;
    CHECK(least == most || there[0] == there[1]);
    CHECK(least >= marked && there[0] >= marked);
    CHECK(most <= marked + 1 && there[1] <= marked + 1);
    return least != most || there[0] != there[1];
}

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc == 3 && shmem_n_pes() > 3);
    uint64_t seed = (uint64_t)atol(argv[1]);
    int me = shmem_my_pe(), torn = 0, writers = 0;
    for (int writer = 1; writer < shmem_n_pes(); writer++) {
        if (writer == SHADOW)
            continue;
        writers++;
        shmem_barrier_all();
        if (me == writer) {
            static long delay;
            pthread_t thread;
            delay = (long)(mixed(seed, (uint64_t)writer) % (uint64_t)atol(argv[2]));
            long from = mark;
            for (int i = 0; i < 2; i++) {
                marks[i] = shmem_long_g(&mark, i ? SHADOW : HOME);
                from = marks[i] > from ? marks[i] : from;
            }
            CHECK(pthread_create(&thread, NULL, kill_later, &delay) == 0);
            for (long number = from + 1;; number++)
                update(number);
        }
        int all = 1;
        shmemx_ft_agree(SHMEM_TEAM_WORLD, &all); /* returns once the writer is dead */
        shmem_restart_pes(NULL, 0);
        torn += look();
    }
    shmem_barrier_all();
    if (me == 0)
        printf("%d writers died, %d in the midst of a copy\n", writers, torn);
    shmem_finalize();
    return 0;
}
