/*
 * drain: counts what it computes. Every PE prints a line for each step that it computes, so a step
 * that is computed again is seen; its output is buffered, so a process that ends without flushing
 * it loses lines.
 *
 * After checkpoint 3, and 4 checkpoints after each such pause, PE 0 prints `ready` and waits until
 * a test has opened and closed the fifo `go`; the other PEs wait for it in a barrier. The argument
 * is the number of such pauses (1).
 */
#define _POSIX_C_SOURCE 200809L /* mkfifo, also with -std=c11 */

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = 4096 };

static long step;
static uint64_t *data;
static uint64_t sum;

static void wait_for_go(void) {
    char byte;
    CHECK(mkfifo("go", 0600) == 0);
    printf("ready %ld\n", step);
    fflush(stdout);
    int go = open("go", O_RDONLY);
    CHECK(go >= 0);
    while (read(go, &byte, 1) > 0)
        ;
    close(go);
    unlink("go");
}

/* Each PE adds what its neighbour had, and prints that it did. */
static void compute(void) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    uint64_t there[16];
    shmem_uint64_get(there, data, 16, (me + 1) % n);
    shmem_barrier_all();
    for (size_t at = 0; at < WORDS; at++)
        data[at] = mixed(data[at], there[at % 16]);
    sum = mixed(sum, data[0]);
    printf("PE %d computes step %ld\n", me, step);
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    long pauses = argc > 1 ? atol(argv[1]) : 1, steps = 4 * pauses + 2;
    shmem_init();
    data = shmem_malloc(WORDS * sizeof *data);
    CHECK(data);
    if (shmem_ft_algo_init())
        for (size_t at = 0; at < WORDS; at++)
            data[at] = mixed((uint64_t)shmem_my_pe(), at);
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (shmem_my_pe() == 0 && step % 4 == 2 && step / 4 < pauses)
            wait_for_go();
        shmem_barrier_all();
        if (step == steps)
            break;
        step++;
        compute();
    }
    static uint64_t all;
    shmem_uint64_xor_reduce(SHMEM_TEAM_WORLD, &all, &sum, 1);
    if (shmem_my_pe() == 0)
        printf("sum %016llx\n", (unsigned long long)all);
    shmem_finalize();
    return 0;
}
