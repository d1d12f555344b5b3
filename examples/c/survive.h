/*
 * survive.h: the loop of a program that survives the death of its PEs, and helpers of the programs
 * here: a hash for checksums and a sum over all PEs.
 *
 *     shmem_init();
 *     while (saved(), !done)
 *         step();
 *
 * A program has only this one loop: a substitute starts at the top of main, and meets the other PEs
 * in their current saved().
 *
 * saved() returns when all PEs have agreed on a checkpoint of the current state. If a PE died, all
 * PEs first roll back to the last checkpoint, and step() is repeated from there; so all state from
 * which step() continues is in symmetric memory (static variables are). Between a death and
 * saved(), gets return zeroes and atomics return zero: step() may compute garbage, which is
 * discarded, but it must terminate.
 *
 * The lines that make a program survive are marked `survival`, there and here.
 *
 * With -DNO_FT nothing is saved: for libraries that only implement the specification.
 */
#ifndef SURVIVE_H
#define SURVIVE_H

#include <shmem.h>
#ifndef NO_FT
#include <shmem_ft.h> /* survival */
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef NO_FT
static inline void saved(void) {
    shmem_barrier_all();
}
#else /* survival: begin */
static inline void saved(void) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        int *pes = NULL, *status = NULL;
        size_t n = 0;
        shmem_query_fault(&pes, &status, &n);
        shmem_restart_pes(pes, n);
        shmem_barrier_all();
        free(pes);
        free(status);
    }
}
#endif /* survival: end */

/* Mixes the bits of a number, identically on all machines, so it also generates data. */
static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Returns one element's part of a checksum, which is the sum of all parts, in any order. */
static inline uint64_t part(uint64_t place, uint64_t value) {
    return mix(mix(place + 0x9e3779b97f4a7c15u) ^ value);
}

/* Sums a number over all PEs; all PEs get the sum. */
static inline uint64_t sum_of_all(uint64_t mine) {
    static uint64_t own, sum;
    own = mine;
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &sum, &own, 1);
#else
    static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE], sync[SHMEM_REDUCE_SYNC_SIZE];
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_long_sum_to_all((long *)&sum, (long *)&own, 1, 0, 0, shmem_n_pes(), work, sync);
    shmem_barrier_all();
#endif
    return sum;
}

/* Allocates symmetric memory, or ends the program. */
static inline void *symmetric(size_t bytes) {
    void *block = shmem_calloc(1, bytes);
    if (!block) {
        fprintf(stderr, "PE %d: no symmetric memory for %zu bytes\n", shmem_my_pe(), bytes);
        shmem_global_exit(1);
    }
    return block;
}

/* Prints the program's last line, and returns its exit status. */
static inline int verdict(const char *name, uint64_t wrong, uint64_t checksum) {
    if (shmem_my_pe() == 0) {
        if (wrong)
            printf("%s: FAILED (%llu wrong)\n", name, (unsigned long long)wrong);
        else
            printf("%s: ok checksum=%016llx\n", name, (unsigned long long)checksum);
        fflush(stdout);
    }
    shmem_finalize();
    return wrong != 0;
}

#endif
