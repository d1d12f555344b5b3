/*
 * restarts: programs that call the checkpoint in several ways. FORM chooses one at compile time:
 * those below 20 reach the same sums whichever PE is lost at whatever checkpoint; those from 20 on
 * have a restart that resumes elsewhere, and some loss makes them go wrong.
 */
#include "restart.h"

#include <stdio.h>

#ifndef FORM
#define FORM 1
#endif

static int step, half, phase;
static long x, y;

static inline int saved(void) {
    if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS)
        return 1;
    restart();
    shmem_barrier_all();
    return 0;
}

static inline void save(void) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        restart();
        phase++;
        shmem_barrier_all();
    }
}

static inline void a(void) {
    x = 3 * x + step++;
    shmem_barrier_all();
}

static inline void b(void) {
    y = 5 * y + x;
    half++;
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    int first = shmem_ft_algo_init();
#if FORM == 1 /* one place, and the loop leads back to it */
    for (;;) {
        if (!saved())
            continue;
        if (step == 6)
            break;
        a();
    }
#elif FORM == 2 /* a substitute learns of the loss before the loop, the others in it */
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        restart();
    while (step < 6) {
        a();
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
    }
#elif FORM == 3 /* like 2, through a function that calls again */
    save();
    while (step < 6) {
        a();
        save();
    }
#elif FORM == 4 /* two places in a loop, and memory says which half is next */
    while (step < 6) {
        if (!saved())
            continue;
        if (half == 0) {
            a();
            half = 1;
        }
        if (!saved())
            continue;
        half = 0;
    }
#elif FORM == 5 /* two phases, and memory says which is next */
    for (;;) {
        save();
        if (step < 4)
            a();
        else if (half < 4)
            b();
        else
            break;
    }
#elif FORM == 6 /* the checkpoint's result goes through a variable */
    int ok;
    do {
        ok = saved();
    } while (!ok);
    while (step < 6) {
        a();
        ok = saved();
    }
#elif FORM == 7 /* the counter changes between two checkpoints */
    for (;; step++) {
        save();
        if (step == 6)
            break;
        x += y + 1;
        b();
    }
#elif FORM == 20 /* two places, and one resumes after the loop's condition */
    while (step < 6 || !saved()) {
        if (step % 3 == 0 && !saved())
            continue;
        a();
    }
#elif FORM == 21 /* two loops that do not check again */
    while (step < 4) {
        save();
        a();
    }
    while (half < 4) {
        save();
        b();
    }
#elif FORM == 22 /* nothing says which part is next */
    save();
    a();
    save();
    b();
    save();
#elif FORM == 23 /* the way back counts a step that is not done */
    for (step = 0; step < 6; step++) {
        if (!saved())
            continue;
        x += y + 1;
        b();
    }
#elif FORM == 24 /* a substitute resets what came from the checkpoint */
    save();
    step = 0;
    while (step < 6) {
        a();
        save();
    }
#elif FORM == 25 /* a substitute does not reach what followed the first checkpoint */
    if (first) {
        save();
        x = 7;
        shmem_barrier_all();
    }
    while (step < 6) {
        save();
        a();
    }
#elif FORM == 26 /* two places in a loop, and nothing says which half is next */
    while (step < 6) {
        save();
        a();
        save();
        b();
    }
#elif FORM == 27 /* a substitute also calls in the loop before, and all others compute */
    while (save(), step < 4)
        a();
    while (save(), half < 4)
        b();
#endif
    printf("PE %d: %ld %ld\n", shmem_my_pe(), x, y);
    shmem_finalize();
    return first < 0;
}
