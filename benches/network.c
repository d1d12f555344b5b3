/*
 * The latency and bandwidth from PE 0 to PE 1, in the terms of ucx_perftest.
 *
 * usage: network ROUNDS       prints `figure value`: medians in ns, bandwidths in MB/s
 *
 * `put_half_ns`: half of a put that the peer waits for, and one back; `get_ns`: a get of 8 bytes;
 * `put_quiet_ns`: a put of 8 bytes and its quiet, which is a round trip.
 * `put_mb_s` and `get_mb_s`: 1 MiB each time, ROUNDS / 20 times, up to WINDOW of them under way,
 * like the tool. Results are checked.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGE (1 << 20)
#define WINDOW 16

static long *word, *mark;
static char *large, *buffer;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void expect(int good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "network: wrong result: %s\n", what);
    shmem_global_exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, long count) {
    qsort(times, count, sizeof *times, by_value);
    return times[count / 2];
}

static void ping_pong(long rounds, double *times) {
    int me = shmem_my_pe();
    for (long round = 1; round <= rounds; round++) {
        double begun = now_ns();
        if (me == 0)
            shmem_long_p(word, round, 1);
        shmem_long_wait_until(word, SHMEM_CMP_EQ, round);
        if (me == 1)
            shmem_long_p(word, round, 0);
        times[round - 1] = now_ns() - begun;
    }
}

/* Starts a transfer, and waits for those of a window at its end. */
static void transfer(void (*begin)(void *, const void *, size_t, int), void *to, const void *from,
                     long round) {
    begin(to, from, LARGE, 1);
    if (round % WINDOW == WINDOW - 1)
        shmem_quiet();
}

static void alone(long rounds, double *times) {
    long value = 0;
    for (long round = 0; round < rounds; round++) {
        double begun = now_ns();
        value = shmem_long_g(word, 1);
        times[round] = now_ns() - begun;
        expect(value == rounds, "get");
    }
    printf("get_ns %.0f\n", median(times, rounds));
    for (long round = 0; round < rounds; round++) {
        double begun = now_ns();
        shmem_long_p(mark, round, 1);
        shmem_quiet();
        times[round] = now_ns() - begun;
    }
    printf("put_quiet_ns %.0f\n", median(times, rounds));
    long many = rounds / 20;
    double begun = now_ns();
    for (long round = 0; round < many; round++)
        transfer(shmem_putmem_nbi, large, buffer, round);
    shmem_quiet();
    printf("put_mb_s %.1f\n", many * (LARGE * 1e3) / (now_ns() - begun));
    memset(buffer, 0, LARGE);
    begun = now_ns();
    for (long round = 0; round < many; round++)
        transfer(shmem_getmem_nbi, buffer, large, round);
    shmem_quiet();
    printf("get_mb_s %.1f\n", many * (LARGE * 1e3) / (now_ns() - begun));
    expect(buffer[0] == 2 && memcmp(buffer, buffer + 1, LARGE - 1) == 0, "1 MiB");
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 0;
    if (rounds < 20) {
        fprintf(stderr, "usage: network ROUNDS (at least 20)\n");
        return 2;
    }
    shmem_init();
    word = shmem_calloc(1, sizeof *word);
    mark = shmem_calloc(1, sizeof *mark);
    large = shmem_malloc(LARGE);
    buffer = malloc(LARGE);
    double *times = malloc(rounds * sizeof *times);
    expect(word && mark && large && buffer && times && shmem_n_pes() == 2, "two PEs, and memory");
    memset(buffer, 2, LARGE);
    memset(large, 1, LARGE);
    shmem_barrier_all();
    ping_pong(rounds, times);
    if (shmem_my_pe() == 0) {
        printf("put_half_ns %.0f\n", median(times, rounds) / 2);
        alone(rounds, times);
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
