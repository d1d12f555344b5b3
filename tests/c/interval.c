/*
 * interval: a ring of sums that calls the checkpoint after each step, most of which are skipped. A
 * PE kills itself, and the sum at the end must still be that of plain loops.
 *
 *     interval calls STEPS [PE STEP]...    shmem_checkpoint_all in each step
 *     interval asks STEPS [PE STEP]...     only if shmemx_ft_need_checkpoint returns true
 *     interval long STEPS                  like calls, with a millisecond of work per step
 *     interval stops STEPS                 like long, but only before the first step and once
 *                                          shmemx_ft_should_stop returns true
 *
 * With `n` before its number, a PE kills its agent instead, and is lost with its node.
 *
 * PE 0 prints what was saved, on one line.
 */
#define _POSIX_C_SOURCE 200809L

#include "test.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static long step, steps;
static uint64_t mine, from_left;
/* Counts since the start, or since the checkpoint that all rolled back to. */
static long calls, saves, restarts;

static uint64_t next(uint64_t own, uint64_t other, long at) {
    return mixed(own + other, (uint64_t)at);
}

static void compute(void) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    shmem_uint64_p(&from_left, mine, (me + 1) % n);
    shmem_barrier_all();
    mine = next(mine, from_left, step++);
    shmem_barrier_all();
}

static void work(void) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 1000000L);
}

/* Only a PE's original process dies: its substitute reaches the same step. */
static void die(int argc, char **argv) {
    for (int at = 3; at + 1 < argc; at += 2) {
        int with_node = argv[at][0] == 'n';
        if (atoi(argv[at] + with_node) == shmem_my_pe() && atol(argv[at + 1]) == step &&
            shmem_ft_algo_init()) {
            kill(with_node ? getppid() : getpid(), SIGKILL);
            for (;;)
                pause(); /* a PE learns of its agent's end a little later */
        }
    }
}

static void checkpoint(int asks, int stops) {
    if (asks && !shmemx_ft_need_checkpoint())
        return;
    if (stops && !shmemx_ft_should_stop())
        return;
    uint64_t before = shmemx_ft_checkpoint_number();
    calls++;
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        recover();
        restarts++;
    } else {
        saves += shmemx_ft_checkpoint_number() != before;
        CHECK(!asks || shmemx_ft_checkpoint_number() == before + 1);
    }
}

int main(int argc, char **argv) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    int asks = argc > 1 && !strcmp(argv[1], "asks");
    int stops = argc > 1 && !strcmp(argv[1], "stops");
    steps = argc > 2 ? atol(argv[2]) : 0;
    if (shmem_ft_algo_init())
        mine = (uint64_t)me + 1;
    checkpoint(asks, 0);
    if (me == 0)
        fprintf(stderr, "goes on\n");
    while (step < steps) {
        die(argc, argv);
        compute();
        if (stops || (argc > 1 && !strcmp(argv[1], "long")))
            work();
        checkpoint(asks, stops);
    }
    uint64_t all[16], from[16];
    CHECK(n <= 16);
    for (int pe = 0; pe < n; pe++)
        all[pe] = (uint64_t)pe + 1;
    for (long at = 0; at < steps; at++) {
        for (int pe = 0; pe < n; pe++)
            from[(pe + 1) % n] = all[pe];
        for (int pe = 0; pe < n; pe++)
            all[pe] = next(all[pe], from[pe], at);
    }
    CHECK(mine == all[me]);
    shmem_barrier_all();
    if (me == 0)
        printf("right: %ld calls, %ld saved, %ld restarts, number %llu\n", calls, saves, restarts,
               (unsigned long long)shmemx_ft_checkpoint_number());
    shmem_finalize();
    return 0;
}
