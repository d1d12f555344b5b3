/*
 * common.h: common parts of the conformance programs.
 *
 * A family is written once, in a `.inc` file with NAME and TYPE for the type, and included for each
 * type of its set by the generated each_<set>.h. `types.h` is generated too.
 */
#ifndef COMMON_H
#define COMMON_H

#include "types.h"

#include <complex.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAT2(a, b) a##b
#define CAT(a, b) CAT2(a, b)
#define CAT4B(a, b, c, d) a##b##c##d
#define CAT4(a, b, c, d) CAT4B(a, b, c, d)
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

enum { MAX_PES = 8 };

static int me, n_pes, next, prev;
static long failures;

#define EXPECT(...)                                                                              \
    do {                                                                                         \
        if (!(__VA_ARGS__) && failures++ < 10)                                                   \
            fprintf(stderr, "PE %d: %s:%d: %s: %s\n", me, __FILE__, __LINE__, WHAT,              \
                    #__VA_ARGS__);                                                               \
    } while (0)

/* A small number for an element of a PE, in the current type; a sum of products of it is exact. */
#define VALUE(pe, i) ((TYPE)((((pe) * 7 + (int)(i) * 3) % 11 + 1) * UNIT))

static void begin(void) {
    shmem_init();
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    next = (me + 1) % n_pes, prev = (me + n_pes - 1) % n_pes;
    if (n_pes > MAX_PES)
        shmem_global_exit(2);
}

static int end(const char *name) {
    static long all;
    shmem_barrier_all();
    shmem_long_atomic_add(&all, failures, 0);
    shmem_barrier_all();
    long failed = shmem_long_g(&all, 0);
    if (me == 0) {
        printf("%s: %s\n", name, failed ? "FAILED" : "ok");
        fflush(stdout);
    }
    shmem_finalize();
    return failed != 0;
}

#endif
