/*
 * flush MIB FILE: a checkpoint of MIB MiB per PE, which the job writes to disk; ends once FILE
 * exists, and prints the milliseconds until then. When resumed from disk, ends as soon as all data
 * is restored.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../tests/c/restart.h"

static double millis(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void fill(uint64_t *data, size_t words) {
    uint64_t x = 88172645463325252u + (uint64_t)shmem_my_pe();
    for (size_t i = 0; i < words; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        data[i] = x;
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    shmem_init();
    if (shmem_ft_algo_init()) {
        size_t bytes = (size_t)atol(argv[1]) << 20;
        fill(shmem_malloc(bytes), bytes / 8);
    }
    if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS) {
        double begun = millis();
        while (shmem_my_pe() == 0 && access(argv[2], F_OK) != 0)
            usleep(1000);
        if (shmem_my_pe() == 0)
            printf("flush_ms %.3f\n", millis() - begun);
    } else {
        restart();
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
