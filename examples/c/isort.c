/*
 * isort: an integer sort by buckets, round after round.
 *
 * Each PE draws keys; the highest digit of a key is its bucket, that is its PE. A PE reserves space
 * in the bucket by an atomic addition and puts the keys there, so all write to all without
 * synchronising. A round draws new keys, sends them, and merges the received keys into the sorted
 * ones.
 *
 * Checked: each bucket is sorted and holds only its own keys, and the keys are those that were
 * drawn (their number, and a sum that does not depend on their order).
 */
#include "survive.h"

#include <string.h>

#ifndef ROUNDS
#define ROUNDS 6
#endif
enum { KEYS = 1 << 13, ROOM = KEYS * ROUNDS * 3 + 1024, MAX_PES = 64 };

static long rounds;         /* done */
static uint64_t drawn;      /* sum of all keys that this PE drew, each mixed */
static size_t sorted;       /* keys of the bucket that are sorted */
static long filled;         /* keys of the bucket; written by all PEs */
static uint32_t *bucket;    /* ROOM keys */
static uint32_t *outgoing;  /* KEYS keys by bucket: the source of puts */

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int bucket_of(uint32_t key) {
    return (int)(((uint64_t)key * (uint64_t)shmem_n_pes()) >> 32);
}

/* Draws keys and orders them by bucket: bucket b spans first[b] to first[b + 1]. */
static void draw(size_t *first) {
    static uint32_t keys[KEYS];
    int n_pes = shmem_n_pes();
    size_t next[MAX_PES] = {0};
    memset(first, 0, (MAX_PES + 1) * sizeof *first);
    for (size_t i = 0; i < KEYS; i++) {
        uint64_t place = ((uint64_t)rounds * MAX_PES + (uint64_t)shmem_my_pe()) * KEYS + i;
        keys[i] = (uint32_t)(mix(place) >> 20);
        drawn += mix(keys[i]);
        first[bucket_of(keys[i]) + 1]++;
    }
    for (int b = 0; b < n_pes; b++) {
        first[b + 1] += first[b];
        next[b] = first[b];
    }
    for (size_t i = 0; i < KEYS; i++)
        outgoing[next[bucket_of(keys[i])]++] = keys[i];
}

static void send(const size_t *first) {
    int n_pes = shmem_n_pes(), me = shmem_my_pe();
    for (int i = 0; i < n_pes; i++) {
        int to = (me + i) % n_pes;
        size_t n = first[to + 1] - first[to];
        long at = shmem_long_atomic_fetch_add(&filled, (long)n, to);
        if (at >= 0 && (size_t)at + n <= ROOM)
            shmem_uint32_put(bucket + at, outgoing + first[to], n, to);
        else
            fprintf(stderr, "isort: no space for %zu keys on PE %d\n", n, to);
    }
}

static void step(void) {
    size_t first[MAX_PES + 1];
    draw(first);
    shmem_barrier_all();
    send(first);
    shmem_barrier_all();
    sorted = filled < 0 || filled > ROOM ? 0 : (size_t)filled;
    qsort(bucket, sorted, sizeof *bucket, by_value);
    rounds++;
}

/* Counts errors in this PE's bucket; adds its part of the checksum and its keys' mixed sum. */
static uint64_t check(uint64_t *checksum, uint64_t *found) {
    uint64_t wrong = 0, before = 0;
    for (int pe = 0; pe < shmem_my_pe(); pe++)
        before += (uint64_t)shmem_long_g(&filled, pe);
    for (size_t i = 0; i < sorted; i++) {
        wrong += bucket_of(bucket[i]) != shmem_my_pe();
        wrong += i > 0 && bucket[i - 1] > bucket[i];
        *checksum += part(before + i, bucket[i]);
        *found += mix(bucket[i]);
    }
    return wrong;
}

static uint64_t wrong, checksum;
static int checked;

static void check_all(void) {
    uint64_t sum = 0, found = 0, bad = check(&sum, &found);
    uint64_t keys = sum_of_all((uint64_t)filled);
    bad += keys != (uint64_t)KEYS * ROUNDS * (uint64_t)shmem_n_pes();
    bad += sum_of_all(found) != sum_of_all(drawn);
    checksum = sum_of_all(sum);
    wrong = sum_of_all(bad);
    checked = 1;
}

int main(void) {
    shmem_init();
    if (shmem_n_pes() > MAX_PES)
        shmem_global_exit(2);
    while (saved(), !checked) {
        if (!bucket) {
            bucket = symmetric(ROOM * sizeof *bucket);
            outgoing = symmetric(KEYS * sizeof *outgoing);
        } else if (rounds < ROUNDS)
            step();
        else
            check_all();
    }
    return verdict("isort", wrong, checksum);
}
