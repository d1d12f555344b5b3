/*
 * What transfers cost between two PEs that share no memory.
 *
 * usage: fabric        2 PEs; prints `figure value`: medians in microseconds, and in MiB a second
 *
 * `put_half_us` is half a round trip: 8 bytes are put, and the other PE answers in kind as soon as
 * it sees them. `get_us` is a get of 8 bytes. A large transfer is one of 1 MiB; puts are complete
 * (`shmem_quiet`) after a series of them, gets when they return.
 */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL = 201, LARGE = 1 << 20, SERIES = 8, ROUNDS = 5 };

static long flag, word;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say(const char *figure, double *runs, int count) {
    qsort(runs, count, sizeof *runs, by_value);
    printf("%s %.3f\n", figure, runs[count / 2]);
    fflush(stdout);
}

static void small(int me) {
    double put[SMALL], get[SMALL];
    for (int i = 0; i < SMALL; i++) {
        double begun = now();
        if (me == 0)
            shmem_long_p(&flag, i + 1, 1);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, i + 1);
        if (me == 1)
            shmem_long_p(&flag, i + 1, 0);
        put[i] = (now() - begun) / 2;
    }
    shmem_barrier_all();
    if (me == 0) {
        for (int i = 0; i < SMALL; i++) {
            double begun = now();
            (void)shmem_long_g(&word, 1);
            get[i] = now() - begun;
        }
        say("put_half_us", put, SMALL);
        say("get_us", get, SMALL);
    }
    shmem_barrier_all();
}

static void large(int me, char *there, char *here, int put) {
    double rates[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        shmem_barrier_all();
        double begun = now();
        for (int i = 0; i < SERIES && me == 0; i++)
            put ? shmem_putmem(there, here, LARGE, 1) : shmem_getmem(here, there, LARGE, 1);
        shmem_quiet();
        rates[round] = SERIES * (LARGE / 1048576.0) / ((now() - begun) * 1e-6);
        shmem_barrier_all();
    }
    if (me == 0)
        say(put ? "put_mib_s" : "get_mib_s", rates, ROUNDS);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe();
    char *there = shmem_malloc(LARGE), *here = malloc(LARGE);
    if (shmem_n_pes() != 2 || !there || !here) {
        fprintf(stderr, "usage: oshrun -n 2 --nodes 2 --fabric NAME fabric\n");
        shmem_global_exit(2);
    }
    memset(here, 1, LARGE);
    small(me);
    large(me, there, here, 1);
    large(me, there, here, 0);
    shmem_finalize();
    return 0;
}
