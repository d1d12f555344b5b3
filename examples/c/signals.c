/* signals: a pipeline around the PEs, each piece with its signal; and nonblocking atomics. */
#include "check.h"

enum { PIECES = 50, LENGTH = 100 };

static long piece[PIECES][LENGTH];
static uint64_t arrived, done;

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes(), next = (me + 1) % n_pes;
    long out[LENGTH];
    for (uint64_t k = 0; k < PIECES; k++) {
        if (me > 0) {
            CHECK(shmem_signal_wait_until(&arrived, SHMEM_CMP_GT, k) > k);
            for (int i = 0; i < LENGTH; i++)
                CHECK(piece[k][i] == (long)k + i * me);
        }
        for (int i = 0; i < LENGTH; i++)
            out[i] = (me > 0 ? piece[k][i] : (long)k) + i;
        if (k % 2)
            shmem_long_put_signal(piece[k], out, LENGTH, &arrived, 1, SHMEM_SIGNAL_ADD, next);
        else
            shmem_putmem_signal_nbi(piece[k], out, sizeof out, &arrived, 1, SHMEM_SIGNAL_ADD, next);
        shmem_quiet(); /* `out` is reused */
    }
    shmem_signal_wait_until(&arrived, SHMEM_CMP_EQ, PIECES);
    CHECK(shmem_signal_fetch(&arrived) == PIECES);
    if (me == 0)
        for (uint64_t k = 0; k < PIECES; k++)
            CHECK(piece[k][LENGTH - 1] == (long)k + (LENGTH - 1) * n_pes);

    shmem_signal_add(&done, 1, 0);
    if (me == 0) {
        shmem_signal_wait_until(&done, SHMEM_CMP_EQ, (uint64_t)n_pes);
        for (int pe = 1; pe < n_pes; pe++)
            shmem_signal_set(&done, 99, pe);
        shmem_signal_set(&done, 99, 0);
    }
    shmem_signal_wait_until(&done, SHMEM_CMP_EQ, 99);
    shmem_barrier_all();

    static unsigned long total;
    unsigned long was = 0, bits = 0;
    shmem_ulong_atomic_fetch_add_nbi(&was, &total, 1, 0);
    shmem_ulong_atomic_fetch_or_nbi(&bits, &total, 0, 0);
    shmem_quiet();
    CHECK(was < (unsigned long)n_pes && bits > was);
    shmem_barrier_all();
    CHECK(shmem_ulong_g(&total, 0) == (unsigned long)n_pes);
    return end_of("signals");
}
