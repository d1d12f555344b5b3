/*
 * An integer bucket sort in the style of ISx (Hanebutte and Hemstad, PGAS 2015), with a fixed
 * number of keys per PE, in calls of OpenSHMEM 1.4.
 *
 * usage: sort [quick]                prints `sort_P_ns value`, P being the number of PEs
 *
 * A PE lays out its keys by bucket, that is by PE, reserves space in each bucket by an atomic
 * addition, and puts the keys there. Then it counts each value of its own bucket. Keys are drawn
 * before the timing, which takes the best of several sorts and, in each, the slowest PE.
 */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SORTS = 9, WIDTH = 1 << 20, MAX_PES = 64 };

static long n_keys = 1 << 20, bucket_len;
static long *filled;                  /* keys in this PE's bucket; all PEs add to it */
static uint32_t *bucket, *outgoing;   /* symmetric */
static uint32_t *keys, *counts;       /* private */

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void expect(int good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "sort: %s\n", what);
    shmem_global_exit(1);
}

/* PE p owns the values from p * WIDTH on. */
static void draw(void) {
    uint64_t state = (uint64_t)shmem_my_pe() * 0x9e3779b97f4a7c15u + 1;
    uint32_t values = (uint32_t)shmem_n_pes() * WIDTH;
    for (long i = 0; i < n_keys; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        keys[i] = (uint32_t)(((state >> 32) * values) >> 32);
    }
}

static void send(void) {
    int n_pes = shmem_n_pes(), me = shmem_my_pe();
    long first[MAX_PES + 1] = {0}, next[MAX_PES];
    for (long i = 0; i < n_keys; i++)
        first[keys[i] / WIDTH + 1]++;
    for (int pe = 0; pe < n_pes; pe++) {
        first[pe + 1] += first[pe];
        next[pe] = first[pe];
    }
    for (long i = 0; i < n_keys; i++)
        outgoing[next[keys[i] / WIDTH]++] = keys[i];
    for (int i = 0; i < n_pes; i++) {
        int to = (me + i) % n_pes;
        long n = first[to + 1] - first[to];
        long at = shmem_long_atomic_fetch_add(filled, n, to);
        expect(at + n <= bucket_len, "a bucket is full");
        shmem_putmem(bucket + at, outgoing + first[to], (size_t)n * sizeof *bucket, to);
    }
}

static void count(void) {
    uint32_t from = (uint32_t)shmem_my_pe() * WIDTH;
    memset(counts, 0, WIDTH * sizeof *counts);
    for (long i = 0; i < *filled; i++)
        counts[bucket[i] - from]++;
}

static double sort(void) {
    *filled = 0;
    shmem_barrier_all();
    double begun = now_ns();
    send();
    shmem_barrier_all();
    count();
    shmem_barrier_all();
    return now_ns() - begun;
}

/* Checks that all drawn keys are present, each in its bucket. */
static void check(void) {
    long all = 0;
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        all += shmem_long_g(filled, pe);
    expect(all == n_keys * shmem_n_pes(), "keys are missing");
    for (long i = 0; i < *filled; i++)
        expect(bucket[i] / WIDTH == (uint32_t)shmem_my_pe(), "a key is in a wrong bucket");
}

static void *own(size_t size) {
    void *memory = malloc(size);
    expect(memory != NULL, "no memory");
    return memset(memory, 0, size);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "quick") == 0)
        n_keys /= 16;
    bucket_len = n_keys + n_keys / 2 + 1024;
    shmem_init();
    expect(shmem_n_pes() <= MAX_PES, "at most 64 PEs");
    filled = shmem_malloc(sizeof *filled);
    bucket = shmem_malloc((size_t)bucket_len * sizeof *bucket);
    outgoing = shmem_malloc((size_t)n_keys * sizeof *outgoing);
    expect(filled && bucket && outgoing, "no symmetric memory");
    memset(bucket, 0, (size_t)bucket_len * sizeof *bucket);
    memset(outgoing, 0, (size_t)n_keys * sizeof *outgoing);
    keys = own((size_t)n_keys * sizeof *keys);
    counts = own(WIDTH * sizeof *counts);
    draw();
    double best = 1e30;
    for (int nth = 0; nth < SORTS; nth++) {
        double took = sort();
        best = took < best ? took : best;
    }
    check();
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        printf("sort_%d_ns %.2f\n", shmem_n_pes(), best);
    shmem_free(outgoing);
    shmem_free(bucket);
    shmem_free(filled);
    shmem_finalize();
    return 0;
}
