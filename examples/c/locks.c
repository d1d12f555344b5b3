/* locks: a counter that is updated by separate reads and writes, and two locks that are always
 * taken in the same order. */
#include "check.h"

enum { TIMES = 400 };
static long lock, other, counter, pairs;

static void add_one(long *to) {
    long value = shmem_long_g(to, 0);
    shmem_long_p(to, value + 1, 0);
}

int main(void) {
    shmem_init();
    int n_pes = shmem_n_pes();
    for (int i = 0; i < TIMES; i++) {
        if (i % 4 == 3)
            while (shmem_test_lock(&lock))
                ; /* another PE holds it */
        else
            shmem_set_lock(&lock);
        add_one(&counter);
        if (i % 8 == 0) {
            shmem_set_lock(&other);
            add_one(&pairs);
            shmem_clear_lock(&other);
        }
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&counter, 0) == (long)TIMES * n_pes);
    CHECK(shmem_long_g(&pairs, 0) == (long)TIMES / 8 * n_pes);
    return end_of("locks");
}
