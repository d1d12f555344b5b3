/* tally: a shared library whose state survives. PE 0 has a total in symmetric memory. Each PE
 * counts its calls in a static variable. No checkpoint holds such a variable of a shared library
 * unless it is protected. */
#include "tally.h"
#include <shmem.h>
#include <shmem_ft.h>

static long *total; /* the same address in a substitute */
static long calls;

void tally_init(void) {
    total = shmem_calloc(1, sizeof *total);
    shmemx_ft_protect("tally.calls", &calls, sizeof calls);
}

void tally_add(long value) {
    calls++;
    shmem_long_atomic_add(total, value, 0);
}

long tally_total(void) {
    return shmem_long_atomic_fetch(total, 0);
}

long tally_calls(void) {
    return calls;
}
