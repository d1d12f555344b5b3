/* Common parts of the test programs: the thesis' loop, and an end with a line if memory is
 * wrong. */
#ifndef RAIDSHMEM_TEST_H
#define RAIDSHMEM_TEST_H

#include "restart.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The status of a job in which memory was not what it should have been. */
enum { WRONG = 9 };

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "WRONG: PE %d, %s:%d: %s\n", shmem_my_pe(), __FILE__, __LINE__, #what); \
            shmem_global_exit(WRONG); \
        } \
    } while (0)

/* Restarts the lost PEs, and waits for all. */
static inline void recover(void) {
    restart();
    shmem_barrier_all();
}

/* Saves all memory. Returns 0 after a loss, when all have restarted and compared their memory. */
static inline int saved(void (*check)(void)) {
    if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS)
        return 1;
    recover();
    check();
    shmem_barrier_all(); /* no PE puts into what a neighbour still compares */
    return 0;
}

static inline uint64_t mixed(uint64_t sum, uint64_t value) {
    sum = (sum ^ value) * 0x9fb21c651e98df25u;
    return sum ^ sum >> 32;
}

#endif
