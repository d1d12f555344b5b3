/*
 * local_rollback_place: the checkpoint is called at two places, and a substitute arrives at the
 * first.
 *
 *     local_rollback_place apart   the places take turns, and different calls follow each
 *     local_rollback_place alike   the first round has its own place, as when a compiler
 *                                  duplicates the instruction of one call
 *
 * A place is a call of save(); with -DIN_MAIN it is in main. -DCALL()=.. defines how save() calls
 * the library; -DTOOL does so through a wrapper, as tools do. PE 0 prints the result.
 */
#ifdef TOOL
#include <pshmem.h>

static int called;
int shmem_checkpoint_all(void) {
    called++;
    return pshmem_checkpoint_all();
}
/* Defines the macro again that pshmem.h removed. */
#define shmem_checkpoint_all() shmemx_checkpoint_all_
#endif
#include "test.h"

#include <dlfcn.h>

enum { ROUNDS = 8 };

static long round_, value, inbox;

#ifndef CALL
#define CALL() shmem_checkpoint_all()
#endif

/* Finds the call at run time, as plug-ins and other languages do. */
__attribute__((unused)) static int found(void) {
    int (*call)(void);
    void *all = dlopen(NULL, RTLD_NOW);
    CHECK(all);
    *(void **)&call = dlsym(all, "shmem_checkpoint_all");
    CHECK(call);
    return call();
}

static int back(void) {
    restart();
    shmem_barrier_all();
    return 0;
}

__attribute__((noinline, unused)) static int save(void) {
    return CALL() == SHMEM_FT_SUCCESS || back();
}

#ifdef IN_MAIN
#define SAVE() (CALL() == SHMEM_FT_SUCCESS || back())
#else
#define SAVE() save()
#endif

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc == 2);
    int alike = !strcmp(argv[1], "alike"), me = shmem_my_pe(), n = shmem_n_pes();
    for (;;) {
        int first = alike ? round_ == 0 : round_ % 2 == 0, saved;
        if (first) {
            saved = SAVE();
            __asm__ volatile("" : : "i"(1)); /* keeps the compiler from merging the two calls */
        } else {
            saved = SAVE();
            __asm__ volatile("" : : "i"(2));
        }
        if (!saved)
            continue;
        if (round_ == ROUNDS)
            break;
        if (!first && !alike)
            shmem_barrier_all();
        shmem_long_p(&inbox, value + me + round_, (me + 1) % n);
        shmem_barrier_all();
        value = (long)mixed((uint64_t)value, (uint64_t)inbox);
        round_++;
    }
    if (me == 0) {
        uint64_t sum = 0;
        for (int pe = 0; pe < n; pe++)
            sum = mixed(sum, (uint64_t)shmem_long_g(&value, pe));
        printf("sum %llu\n", (unsigned long long)sum);
#ifdef TOOL
        CHECK(called > ROUNDS);
#endif
    }
    shmem_finalize();
    return 0;
}
