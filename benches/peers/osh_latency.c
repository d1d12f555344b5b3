/*
 * Small latencies and large transfers, using only calls of OpenSHMEM 1.4.
 *
 * usage: osh_latency [quick]         prints `figure value`: ns for times, MB/s for bandwidths
 *
 * With 2 PEs: transfers, atomics, ping-pong, barrier and reduction; with any other number only the
 * last two. PE 0 measures; each value is the best of several batches, because an interrupted batch
 * does not reflect the library. Results are checked, so that no operation can be skipped.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES 9
#define LARGE (1 << 20)
#define PAGE 4096
#define WORDS (PAGE / sizeof(long))
#define MANY 64

/* In the symmetric heap, for which a peer library may have a fast path; static variables, which
 * some libraries access only by messages, are measured separately. */
static long *word, *flag, *sum;
static long static_word;
static int divisor = 1;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void expect(int good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "osh_latency: wrong result: %s\n", what);
    shmem_global_exit(1);
}

/* Returns the nanoseconds of one call of `step`, which receives the number of the call. */
static double best(void (*step)(long), long calls) {
    double best_ns = 1e30;
    long number = 0;
    calls /= divisor;
    for (int batch = 0; batch < BATCHES; batch++) {
        double begun = now_ns();
        for (long i = 0; i < calls; i++)
            step(++number);
        double each = (now_ns() - begun) / calls;
        best_ns = each < best_ns ? each : best_ns;
    }
    return best_ns;
}

static void put_quiet(long number) {
    shmem_long_put(word, &number, 1, 1);
    shmem_quiet();
}

static void put_static(long number) {
    shmem_long_put(&static_word, &number, 1, 1);
    shmem_quiet();
}

static void get(long number) {
    long value;
    (void)number;
    shmem_long_get(&value, word, 1, 1);
    __asm__ volatile("" : : "r"(value));
}

static void fetch_add(long number) {
    expect(shmem_long_atomic_fetch_add(sum, 1, 1) == number - 1, "fetch-add");
}

/* Called by both PEs; a call is a round trip. */
static void ping_pong(long number) {
    int me = shmem_my_pe();
    if (me == 0)
        shmem_long_p(flag, number, 1);
    shmem_long_wait_until(flag, SHMEM_CMP_EQ, number);
    if (me == 1)
        shmem_long_p(flag, number, 0);
}

static void barrier(long number) {
    (void)number;
    shmem_barrier_all();
}

/* Alternates two sets of work arrays: a PE that has not left the last call may still use one. */
static long *addends, *sums, sync_words[2][SHMEM_REDUCE_SYNC_SIZE];
static long work_words[2][WORDS / 2 + 1 > SHMEM_REDUCE_MIN_WRKDATA_SIZE
                              ? WORDS / 2 + 1
                              : SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static void reduce_words(long number, int words) {
    addends[0] = number;
    shmem_long_sum_to_all(sums, addends, words, 0, 0, shmem_n_pes(), work_words[number & 1],
                          sync_words[number & 1]);
    expect(sums[0] == number * shmem_n_pes(), "reduction");
}

static void reduce(long number) {
    reduce_words(number, WORDS);
}

static void reduce_one(long number) {
    reduce_words(number, 1);
}

static long broadcast_words[2][SHMEM_BCAST_SYNC_SIZE];

static void broadcast_one(long number) {
    addends[0] = number;
    shmem_broadcast64(sums, addends, 1, 0, 0, 0, shmem_n_pes(), broadcast_words[number & 1]);
    expect(shmem_my_pe() == 0 || sums[0] == number, "broadcast");
}

static char *large, *buffer, *other;

/* Puts each to another address, as an application would. */
static void put_many(long number) {
    buffer[0] = (char)number;
    for (int nth = 0; nth < MANY; nth++)
        shmem_putmem(large + nth * PAGE, buffer + nth * PAGE, PAGE, 1);
    shmem_quiet();
}

static void put_large(long number) {
    buffer[LARGE - 1] = (char)number;
    shmem_putmem(large, buffer, LARGE, 1);
    shmem_quiet();
}

static void get_large(long number) {
    (void)number;
    shmem_getmem(buffer, large, LARGE, 1);
}

static void copy_large(long number) {
    buffer[LARGE - 1] = (char)number;
    memcpy(other, buffer, LARGE);
    __asm__ volatile("" : : "r"(other) : "memory");
}

static void print(const char *figure, double value) {
    if (shmem_my_pe() == 0)
        printf("%s %.2f\n", figure, value);
}

/* Measurements by PE 0 alone, while PE 1 waits in a barrier. */
static void alone(void) {
    print("put_8_ns", best(put_quiet, 20000));
    long value = 0;
    shmem_long_get(&value, word, 1, 1);
    expect(value == BATCHES * (20000L / divisor), "put");
    print("put_8_static_ns", best(put_static, 20000));
    print("get_8_ns", best(get, 20000));
    print("fetch_add_ns", best(fetch_add, 20000));
    print("put_4K_ns", best(put_many, 2000) / MANY);
    print("put_1M_mb_s", LARGE * 1e3 / best(put_large, 200));
    print("memcpy_1M_mb_s", LARGE * 1e3 / best(copy_large, 200));
    buffer[LARGE - 1] = 0;
    print("get_1M_mb_s", LARGE * 1e3 / best(get_large, 200));
    expect(buffer[LARGE - 1] == (char)(BATCHES * (200L / divisor)), "1 MiB");
}

int main(int argc, char **argv) {
    divisor = argc > 1 && strcmp(argv[1], "quick") == 0 ? 20 : 1;
    shmem_init();
    char figure[32];
    snprintf(figure, sizeof figure, "barrier_%d_ns", shmem_n_pes());
    long *words = shmem_calloc(3 * PAGE / sizeof(long), sizeof(long));
    expect(words != NULL, "memory");
    word = words;
    flag = words + PAGE / sizeof(long);
    sum = words + 2 * PAGE / sizeof(long);
    addends = shmem_align(PAGE, PAGE);
    sums = shmem_align(PAGE, PAGE);
    expect(addends != NULL && sums != NULL, "memory");
    memset(addends, 0, PAGE);
    large = shmem_align(PAGE, LARGE); /* the offset of a block in its page is worth 2 % */
    buffer = aligned_alloc(PAGE, LARGE);
    other = aligned_alloc(PAGE, LARGE);
    expect(large != NULL && buffer != NULL && other != NULL, "memory");
    memset(other, 3, LARGE);
    memset(large, 1, LARGE);
    memset(buffer, 2, LARGE);
    shmem_barrier_all();
    print(figure, best(barrier, 5000));
    for (int nth = 0; nth < SHMEM_REDUCE_SYNC_SIZE; nth++)
        sync_words[0][nth] = sync_words[1][nth] = SHMEM_SYNC_VALUE;
    for (int nth = 0; nth < SHMEM_BCAST_SYNC_SIZE; nth++)
        broadcast_words[0][nth] = broadcast_words[1][nth] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    snprintf(figure, sizeof figure, "reduce_4K_%d_ns", shmem_n_pes());
    print(figure, best(reduce, 2000));
    snprintf(figure, sizeof figure, "reduce_8_%d_ns", shmem_n_pes());
    print(figure, best(reduce_one, 5000));
    snprintf(figure, sizeof figure, "broadcast_8_%d_ns", shmem_n_pes());
    print(figure, best(broadcast_one, 5000));
    if (shmem_n_pes() == 2) {
        shmem_barrier_all();
        print("ping_pong_half_ns", best(ping_pong, 20000) / 2);
        shmem_barrier_all();
        if (shmem_my_pe() == 0)
            alone();
    }
    shmem_barrier_all();
    shmem_free(large);
    shmem_free(sums);
    shmem_free(addends);
    shmem_free(words);
    free(buffer);
    free(other);
    shmem_finalize();
    return 0;
}
