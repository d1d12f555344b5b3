/* Transfers between PEs of different nodes, and the guarantees of fence, quiet, signals and
   atomics. Each PE runs them with its partner, the PE half the job away, and with PE 0. One PE is
   its own partner. */
#include "test.h"

#include <sched.h>

enum { ROUNDS = 200, BULK = 1 << 20, POSTS = 5000 };

static long data[64], flag, answer, turn, there, counter;
static short narrow[4];
static int middle;
static uint64_t sig;
static int32_t grid[400], from_grid[400];

static int partner(void) {
    int half = shmem_n_pes() / 2;
    return (shmem_my_pe() + (half > 0 ? half : 0)) % shmem_n_pes();
}

/* Bytes of every length arrive as they are, and no byte more. */
static void lengths(char *bulk, char *own) {
    for (size_t len = 1; len <= BULK; len = len < 300 ? len + 37 : len * 3 + 1) {
        for (size_t i = 0; i < len; i++) own[i] = (char)(i * 7 + len + shmem_my_pe());
        memset(bulk, 0x55, len + 1);
        shmem_barrier_all();
        shmem_putmem(bulk, own, len, partner());
        shmem_barrier_all();
        CHECK(bulk[len] == 0x55);
        char *back = malloc(len);
        shmem_getmem(back, bulk, len, partner());
        CHECK(memcmp(back, own, len) == 0);
        free(back);
        shmem_barrier_all();
    }
}

static void strides(void) {
    for (int i = 0; i < 400; i++) grid[i] = -1;
    shmem_barrier_all();
    for (int i = 0; i < 400; i++) from_grid[i] = i + 1000 * shmem_my_pe();
    shmem_int32_iput(grid, from_grid, 3, 2, 100, partner());
    shmem_barrier_all();
    int32_t mine[100];
    shmem_int32_iget(mine, grid, 1, 3, 100, partner());
    for (int i = 0; i < 100; i++) CHECK(mine[i] == 2 * i + 1000 * shmem_my_pe());
    CHECK(grid[1] == -1 && grid[2] == -1);
    shmem_barrier_all();
}

/* All PEs update the words of PE 0: those that map it and those that do not. */
static void atomics(void) {
    int n = shmem_n_pes();
    for (int i = 0; i < ROUNDS; i++) {
        shmem_long_atomic_inc(&counter, 0);
        shmem_int_atomic_fetch_add(&middle, 2, 0);
    }
    long mine = 1L << shmem_my_pe();
    shmem_ulong_atomic_or((unsigned long *)&data[63], (unsigned long)mine, 0);
    shmem_barrier_all();
    CHECK(shmem_long_atomic_fetch(&counter, 0) == (long)n * ROUNDS);
    CHECK(shmem_int_atomic_fetch(&middle, 0) == 2 * n * ROUNDS);
    CHECK(shmem_long_atomic_fetch(&data[63], 0) == (1L << n) - 1);
    shmem_barrier_all();
    for (int i = 0; i < 20; i++) {
        long seen;
        do seen = shmem_long_atomic_compare_swap(&counter, n * ROUNDS + i * n + shmem_my_pe(),
                                                 n * ROUNDS + i * n + shmem_my_pe() + 1, 0);
        while (seen != n * ROUNDS + i * n + shmem_my_pe());
    }
    shmem_barrier_all();
    CHECK(shmem_long_atomic_swap(&data[shmem_my_pe()], 7, 0) == 0);
    CHECK(shmem_long_atomic_fetch(&data[shmem_my_pe()], 0) == 7);
    shmem_short_p(&narrow[2], (short)(shmem_my_pe() - 300), partner());
    shmem_barrier_all();
    CHECK(shmem_short_g(&narrow[2], partner()) == shmem_my_pe() - 300);
    shmem_barrier_all();
    memset(data, 0, sizeof data);
    shmem_barrier_all();
}

/* Message passing: a PE that sees the flag sees what was put before the fence. */
static void passing(void) {
    long words[32];
    for (long round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < 32; i++) words[i] = round * 100 + i;
        shmem_long_put(data, words, 32, partner());
        shmem_fence();
        shmem_long_p(&flag, round, partner());
        shmem_long_wait_until(&flag, SHMEM_CMP_GE, round);
        for (int i = 0; i < 32; i++) CHECK(data[i] == round * 100 + i);
        shmem_long_atomic_set(&answer, round, partner());
        shmem_long_wait_until(&answer, SHMEM_CMP_GE, round);
    }
    shmem_barrier_all();
}

/* Store buffering: of two PEs that write, quiet and read the other's word, one sees the other's. */
static void buffering(void) {
    int me = shmem_my_pe(), other = me ^ 1;
    if (other >= shmem_n_pes()) return;
    for (long round = 1; round <= ROUNDS; round++) {
        shmem_long_p(&turn, round, other);
        shmem_quiet();
        long seen = turn >= round;
        shmem_long_p(&there, round * 2 + seen, other);
        shmem_long_wait_until(&there, SHMEM_CMP_GE, round * 2);
        CHECK(seen || there == round * 2 + 1);
        shmem_long_atomic_set(&answer, ROUNDS + round, other);
        shmem_long_wait_until(&answer, SHMEM_CMP_GE, ROUNDS + round);
    }
}

static void signals(void) {
    long words[64];
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < 64; i++) words[i] = (long)round + i;
        shmem_long_put_signal(data, words, 64, &sig, 1, SHMEM_SIGNAL_ADD, partner());
        shmem_signal_wait_until(&sig, SHMEM_CMP_GE, round);
        for (int i = 0; i < 64; i++) CHECK(data[i] == (long)round + i);
        shmem_long_atomic_set(&answer, 2 * ROUNDS + (long)round, partner());
        shmem_long_wait_until(&answer, SHMEM_CMP_GE, 2 * ROUNDS + (long)round);
    }
    shmem_barrier_all();
}

/* More operations than any queue holds, to a PE that makes no call meanwhile. */
static void pressure(void) {
    counter = 0;
    shmem_barrier_all();
    if (shmem_my_pe() != 0 || shmem_n_pes() == 1) {
        for (int i = 0; i < POSTS; i++) {
            shmem_long_p(&data[shmem_my_pe()], i, 0);
            shmem_long_atomic_add(&counter, 1, 0);
        }
        shmem_quiet();
    } else {
        long wanted = (long)(shmem_n_pes() - 1) * POSTS;
        while (__atomic_load_n(&counter, __ATOMIC_ACQUIRE) < wanted) sched_yield();
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&counter, 0) == (long)(shmem_n_pes() - (shmem_n_pes() > 1)) * POSTS);
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    shmem_init();
    char *bulk = shmem_malloc(BULK * 4 + 1), *own = malloc(BULK * 4);
    long all[1] = {shmem_my_pe()};
    static long sum, mine;
    lengths(bulk, own);
    strides();
    atomics();
    passing();
    buffering();
    shmem_barrier_all();
    signals();
    pressure();
    mine = all[0];
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1);
    CHECK(sum == (long)shmem_n_pes() * (shmem_n_pes() - 1) / 2);
    int apart = argc > 1 && strcmp(argv[1], "apart") == 0;
    int mapped = shmem_ptr(bulk, partner()) != NULL;
    CHECK(mapped == !apart);
    free(own);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) printf("litmus: all as promised\n");
    shmem_finalize();
}
