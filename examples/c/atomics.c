/* atomics: all PEs on the words of PE 0, and on each other's. */
#include "check.h"

enum { TIMES = 2000 };

static int counter;
static long sum, ticket, chain;
static unsigned bits;
static uint64_t toggled;
static double real;

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes(), next = (me + 1) % n_pes;
    long before = -1;
    for (int i = 0; i < TIMES; i++) {
        shmem_int_atomic_inc(&counter, 0);
        shmem_long_atomic_add(&sum, me + 1, 0);
        long mine = shmem_long_atomic_fetch_inc(&ticket, 0);
        CHECK(mine > before); /* tickets grow */
        before = mine;
    }
    for (int i = 0; i < 100; i++) { /* an addition by compare-and-swap */
        long seen = shmem_long_atomic_fetch(&chain, 0), was;
        while ((was = shmem_long_atomic_compare_swap(&chain, seen, seen + 2, 0)) != seen)
            seen = was;
    }
    shmem_uint_atomic_or(&bits, 1u << me, 0);
    shmem_uint64_atomic_xor(&toggled, (uint64_t)3 << me, 0);
    shmem_barrier_all();
    CHECK(shmem_int_atomic_fetch(&counter, 0) == TIMES * n_pes);
    CHECK(shmem_long_atomic_fetch(&sum, 0) == (long)TIMES * n_pes * (n_pes + 1) / 2);
    CHECK(shmem_long_atomic_fetch(&ticket, 0) == (long)TIMES * n_pes);
    CHECK(shmem_long_g(&chain, 0) == 200L * n_pes);
    CHECK(shmem_uint_atomic_fetch(&bits, 0) == (1u << n_pes) - 1);
    CHECK(shmem_uint64_atomic_fetch(&toggled, 0) == (1u | (uint64_t)1 << n_pes));
    shmem_barrier_all();

    shmem_double_atomic_set(&real, 1.5 + me, next);
    CHECK(shmem_double_atomic_swap(&real, -2.0, next) == 1.5 + me);
    CHECK(shmem_double_atomic_fetch(&real, next) == -2.0);
    shmem_barrier_all();
    CHECK(shmem_uint_atomic_fetch_and(&bits, 0, me) == (me ? 0 : (1u << n_pes) - 1));
    CHECK(shmem_long_atomic_swap(&sum, 5, me) == (me ? 0 : (long)TIMES * n_pes * (n_pes + 1) / 2));
    CHECK(shmem_long_atomic_fetch_add(&sum, -7, me) == 5 && sum == -2);
    return end_of("atomics");
}
