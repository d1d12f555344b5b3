/*
 * pointers: programs with memory of malloc. FORM chooses one at compile time: those below 20 reach
 * the same sums whichever PE is lost; those from 20 on keep its address in checkpointed memory, and
 * a substitute, whose memory lies elsewhere, goes wrong.
 */
#include "restart.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef FORM
#define FORM 1
#endif

enum { STEPS = 6, BYTES = 1 << 20 };

static long step, sum;

/* Allocates private memory; a substitute has allocated something else before. */
static long *private_memory(void) {
    long *own = calloc(1, BYTES);
    if (!shmem_ft_algo_init())
        own = calloc(1, BYTES);
    *own = 7;
    return own;
}

#if FORM == 21 /* so does a static variable of a function */
static long *weight(void) {
    static long *own;
    if (!own)
        own = private_memory();
    return own;
}
#elif FORM != 1
static long *own;
#endif

int main(void) {
    shmem_init();
#if FORM == 1 /* a local variable has the address */
    long *own = private_memory();
#elif FORM == 2 /* no checkpoint has the variable */
    own = private_memory();
    shmemx_ft_exclude(&own, sizeof own);
#elif FORM == 3 /* the memory is symmetric */
    own = shmem_calloc(1, sizeof *own);
    *own = *private_memory();
#elif FORM == 20 /* a static variable has it */
    own = private_memory();
#elif FORM == 21
    weight();
#endif
    while (step < STEPS) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            shmem_barrier_all();
            continue;
        }
#if FORM == 21
        sum += *weight();
#else
        sum += *own;
#endif
        step++;
        shmem_barrier_all();
    }
    printf("PE %d: %ld\n", shmem_my_pe(), sum);
    shmem_finalize();
    return 0;
}
