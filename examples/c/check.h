/* check.h: a check that reports where it failed, and a last line that reports the result. */
#ifndef CHECK_H
#define CHECK_H

#include <shmem.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long failures;

#define CHECK(...)                                                                               \
    do {                                                                                         \
        if (!(__VA_ARGS__)) {                                                                    \
            failures++;                                                                          \
            fprintf(stderr, "PE %d: %s:%d: %s\n", shmem_my_pe(), __FILE__, __LINE__,              \
                    #__VA_ARGS__);                                                               \
        }                                                                                        \
    } while (0)

/* Ends the program: `name: ok` if no check failed on any PE. */
static inline int end_of(const char *name) {
    static long all;
    shmem_barrier_all();
    shmem_long_atomic_add(&all, failures, 0);
    shmem_barrier_all();
    long failed = shmem_long_g(&all, 0);
    if (shmem_my_pe() == 0) {
        if (failed)
            printf("%s: FAILED (%ld checks)\n", name, failed);
        else
            printf("%s: ok\n", name);
        fflush(stdout);
    }
    shmem_finalize();
    return failed != 0;
}

#endif
