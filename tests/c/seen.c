/*
 * seen: PE 1 kills itself after the first checkpoint; PE 0 waits for it in a barrier, and prints
 * after how many milliseconds it knew of the death. Both read their machine's clock.
 */
#include "test.h"

#include <signal.h>
#include <time.h>

static double begun; /* as PE 1 wrote it, at PE 0 */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

int main(void) {
    shmem_init();
    int original = shmem_ft_algo_init();
    if (original && shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        recover();
    if (original && shmem_my_pe() == 1) {
        double time = now();
        shmem_double_p(&begun, time, 0);
        shmem_quiet();
        raise(SIGKILL);
    }
    if (original)
        shmem_barrier_all();
    double seen = now() - begun;
    if (original && shmem_my_pe() == 0)
        printf("seen after %.3f ms\n", seen);
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        recover();
    shmem_finalize();
    return 0;
}
