/*
 * profiled: a program with a profiler's counters: indirect calls and lengths of copies are counted
 * in memory of malloc. A variable named like those of gcov is restored.
 */
#include "restart.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 6 };

long __gcov_x = 1;
static long step;
static char text[64];

static long twice(long x) {
    return 2 * x;
}
static long next(long x) {
    return x + 1;
}
static long (*const functions[])(long) = {twice, next};

int main(int count, char **words) {
    shmem_init();
    int me = shmem_my_pe();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            shmem_barrier_all();
            continue;
        }
        if (step == STEPS)
            break;
        for (int i = 0; i < 100; i++) {
            __gcov_x = functions[(i + step + me) % 2](__gcov_x) % 1000003;
            memcpy(text, words[count - 1], strlen(words[count - 1]) % (1 + (size_t)i % 7));
        }
        step++;
        shmem_barrier_all();
    }
    printf("PE %d: %ld\n", me, __gcov_x);
    shmem_finalize();
    return 0;
}
