/*
 * ring: passes a token to the next PE, and communicates with no other.
 *
 * Each PE prints its process id; PE 0 prints `ready` after some rounds, and starts the last one
 * when there is a file `stop` in its folder.
 */
#define _GNU_SOURCE
#include "test.h"

#include <sched.h>
#include <unistd.h>

enum { ROUNDS = 20 };

static long token;

/* Passes the token round once; PE 0 begins. */
static void pass(long round) {
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    if (me == 0)
        shmem_long_p(&token, round, next);
    shmem_long_wait_until(&token, SHMEM_CMP_EQ, round);
    if (me != 0)
        shmem_long_p(&token, round, next);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    printf("PE %d is process %ld\n", shmem_my_pe(), (long)getpid());
    for (long round = 1; round <= ROUNDS; round++)
        pass(round);
    if (shmem_my_pe() == 0) {
        printf("ready\n");
        while (access("stop", F_OK) != 0)
            sched_yield();
        unlink("stop");
    }
    pass(ROUNDS + 1);
    shmem_finalize();
    return 0;
}
