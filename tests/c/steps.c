/*
 * steps: runs on, with a checkpoint each step, until there is a file `stop` in its folder.
 *
 * PE 0 prints `ready` after the third checkpoint, and `stopped` at the end; each PE prints its
 * process id at the start. Every step passes a token round, so that PEs wait for each other in
 * every way: barrier, wait, get. With an argument, in milliseconds, the first process of PE 1 takes
 * that long to end.
 */
#define _GNU_SOURCE
#include "test.h"

#include "hold.h"

#include <unistd.h>

static long step;
static long token;
static int stop;

static void round_trip(void) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    if (me == 0) {
        shmem_long_p(&token, step, 1 % n);
        if (n > 1)
            shmem_long_wait_until(&token, SHMEM_CMP_EQ, step);
    } else {
        shmem_long_wait_until(&token, SHMEM_CMP_EQ, step);
        shmem_long_p(&token, step, (me + 1) % n);
    }
    shmem_barrier_all();
    long there = shmem_long_g(&token, (me + 1) % n);
    if (!shmemx_ft_faulted() && there != step) {
        shmem_barrier_all(); /* the gets may have missed a death seen now */
        CHECK(shmemx_ft_faulted());
    }
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    if (argc > 1 && shmem_my_pe() == 1 && shmem_ft_algo_init())
        hold_end(atol(argv[1]));
    printf("PE %d is process %ld\n", shmem_my_pe(), (long)getpid());
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (stop)
            break;
        step++;
        if (step == 3 && shmem_my_pe() == 0)
            printf("ready\n");
        round_trip();
        int asked = shmem_my_pe() == 0 && access("stop", F_OK) == 0;
        for (int pe = 0; asked && pe < shmem_n_pes(); pe++)
            shmem_int_p(&stop, 1, pe);
        shmem_barrier_all();
    }
    if (shmem_my_pe() == 0) {
        unlink("stop");
        printf("stopped\n");
    }
    shmem_finalize();
    return 0;
}
