/*
 * rebuilt: adds up numbers, with a checkpoint each step, and prints whether the sum is right.
 * Restarted from disk by another build, it continues if that build has all saved variables. FORM is
 * the build: 0 unchanged, 1 with more functions and variables, in another order, 2 without a
 * variable, 3 with a longer one, 4 with the address of a function in a variable, 5 like 4 with one
 * more variable, 6 with the address of a variable in the heap.
 */
#include "restart.h"

#include <stdio.h>

#ifndef FORM
#define FORM 0
#endif

enum { STEPS = 4000, CELLS = 8192 };

#if FORM == 1
long added[1000] = {1, 2, 3};
long total;

static long more(long value) {
    static int calls;
    calls++;
    return value + (calls & 0);
}
#define more(value) more(value)
#else
#define more(value) (value)
#endif

static long sums[FORM == 3 ? 128 : 64];
static long *cells;
static int step;
#if FORM != 1
long total;
#endif
#if FORM != 2
long extra = 7;
#endif

static long twice(long value) {
    return 2 * value;
}

#if FORM == 4 || FORM == 5
static long (*volatile function)(long) = twice;
#else
#define function twice
#endif
#if FORM == 5
static long unused[500] __attribute__((used)) = {5};
#endif

/* Two functions have a static variable of the same name. */
static int count_even(void) {
    static int even;
    return ++even;
}

static int count_all(void) {
    static int all;
    return ++all;
}

static long now(void) {
#if FORM != 2
    return step + extra - 7;
#else
    return step;
#endif
}

static int is_right(void) {
    long sum = 0, evens = (STEPS + 1) / 2;
    for (int i = 0; i < 64; i++)
        sum += sums[i];
    for (int i = 0; i < CELLS; i++)
        sum += FORM == 6 && i == 77 ? 0 : cells[i];
    int right = sum == 2 * total && total == (long)STEPS * (STEPS - 1);
    right = right && count_all() == STEPS + 1 && count_even() == evens + 1;
#if FORM == 1
    right = right && added[0] == 1 && added[2] == 3 && added[999] == 0;
#endif
    return right;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    if (shmem_ft_algo_init())
        cells = shmem_calloc(CELLS, sizeof *cells);
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            shmem_barrier_all();
            continue;
        }
        if (step == STEPS)
            break;
        long value = more(function(now()));
        total += value;
        sums[step % 64] += value;
        cells[step * 5 % CELLS == 77 ? 78 : step * 5 % CELLS] += value;
        if (FORM == 6)
            cells[77] = (long)&total;
        count_all();
        if (step % 2 == 0)
            count_even();
        step++;
        shmem_barrier_all();
    }
    printf("PE %d: the sum is %s\n", shmem_my_pe(), is_right() ? "right" : "wrong");
    shmem_finalize();
    return 0;
}
