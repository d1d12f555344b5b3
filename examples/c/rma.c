/* rma: blocking and nonblocking put and get: typed, by size, by bytes, single and strided. */
#include "check.h"

enum { N = 24 };
static long data[N], from_prev[N];
static short small[N];
static double real;

static int me, n_pes, next, prev;

static long value(int pe, int i) {
    return 1000L * pe + i;
}

static void whole(void) {
    long own[N], got[N];
    for (int i = 0; i < N; i++)
        own[i] = data[i] = value(me, i);
    shmem_barrier_all();
    shmem_long_put(from_prev, own, N, next);
    shmem_long_get(got, data, N, prev);
    shmem_barrier_all();
    for (int i = 0; i < N; i++)
        CHECK(from_prev[i] == value(prev, i) && got[i] == value(prev, i));

    memset(got, 0, sizeof got);
    shmem_get64(got, data, N / 2, next);
    shmem_getmem(got + N / 2, data + N / 2, sizeof got / 2, next);
    for (int i = 0; i < N; i++)
        CHECK(got[i] == value(next, i));
    shmem_barrier_all();
}

static void nonblocking(void) {
    long own[N], got[N] = {0};
    memset(from_prev, 0, sizeof from_prev);
    for (int i = 0; i < N; i++)
        own[i] = -value(me, i);
    shmem_barrier_all();
    shmem_long_put_nbi(from_prev, own, N / 2, next);
    shmem_putmem_nbi(from_prev + N / 2, own + N / 2, sizeof own / 2, next);
    shmem_long_get_nbi(got, data, N, next);
    shmem_quiet();
    shmem_barrier_all();
    for (int i = 0; i < N; i++)
        CHECK(from_prev[i] == -value(prev, i) && got[i] == value(next, i));
    shmem_barrier_all();
}

static void single(void) {
    shmem_double_p(&real, 0.5 + me, next);
    shmem_long_p(&from_prev[3], 77 + me, next);
    shmem_fence();
    shmem_long_p(&from_prev[4], 1, next);
    shmem_barrier_all();
    CHECK(real == 0.5 + prev && from_prev[3] == 77 + prev && from_prev[4] == 1);
    CHECK(shmem_double_g(&real, next) == 0.5 + me);
    CHECK(shmem_long_g(&data[5], next) == value(next, 5));
    shmem_barrier_all();
}

static void strided(void) {
    short own[N], got[N] = {0};
    memset(small, 0, sizeof small);
    for (int i = 0; i < N; i++)
        own[i] = (short)(100 * me + i);
    shmem_barrier_all();
    shmem_short_iput(small, own, 3, 2, 8, next); /* every third there from every second here */
    shmem_barrier_all();
    for (int i = 0; i < N; i++)
        CHECK(small[i] == (i % 3 ? 0 : 100 * prev + 2 * (i / 3)));
    shmem_short_iget(got, small, 1, 3, 8, next);
    for (int i = 0; i < 8; i++)
        CHECK(got[i] == 100 * me + 2 * i);
    shmem_iget16(got, small, 2, 3, 4, next);
    for (int i = 0; i < 4; i++)
        CHECK(got[2 * i] == 100 * me + 2 * i);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    next = (me + 1) % n_pes, prev = (me + n_pes - 1) % n_pes;
    whole();
    nonblocking();
    single();
    strided();
    return end_of("rma");
}
