/*
 * prelude: calls before the checkpoint loop, whose results are kept in a variable of main. A
 * substitute, which is another process, repeats them. Each PE prints `is right` if at the end that
 * variable equals its value in the PE's first process, which a static variable holds.
 *
 *     prelude table      the calls of the table, which a test inserts here
 *     prelude less       a substitute leaves a call out
 *     prelude more       it makes a call that the lost PE did not make
 *     prelude partly     it leaves out one of two equal calls with different results
 *     prelude large      the results are larger than what is kept
 *     prelude unheard    the calls of the table, with no results kept
 *
 * STEPS in the environment is the number of checkpoints.
 */
#include "test.h"

enum { ROOM = 1 << 20, CALLS = 4000 };

static _Alignas(16) unsigned char d[4096], s[1024], work[4096];
static long sync_words[SHMEM_SYNC_SIZE];
static uint64_t signals;
static long lock;
static unsigned char before[ROOM];
static size_t had;
static int step;

static int n, next;
static unsigned char *kept;
static size_t length;
static unsigned calls;
static struct { const char *name; size_t at; } made[CALLS]; /* where the results of a call begin */
static unsigned char out[64], ones[256];

static void keep(const void *bytes, size_t len) {
    CHECK(length + len <= ROOM);
    memcpy(kept + length, bytes, len);
    length += len;
}

/* Begins a call, with data of its own that is the same in each process of a PE. */
static void begin(const char *name) {
    CHECK(calls < CALLS);
    made[calls].name = name;
    made[calls++].at = length;
    shmem_barrier_all();
    for (unsigned at = 0; at < sizeof s; at++)
        s[at] = (unsigned char)(mixed(calls, at * 16 + (unsigned)shmem_my_pe()) >> 9);
    memset(d, 0x21, sizeof d);
    memset(out, 0, sizeof out);
    shmem_barrier_all();
}

/* Routines that need another one's result. */
static void apart(void) {
    shmem_team_t team, rows, columns;
    shmem_ctx_t ctx;
    begin("splits");
    int is = shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team);
    keep(&is, sizeof is);
    keep(&team, sizeof team);
    is = shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &rows, NULL, 0, &columns);
    keep(&is, sizeof is);
    int of[] = {shmem_team_my_pe(rows), shmem_team_n_pes(columns),
                shmem_team_translate_pe(rows, 0, SHMEM_TEAM_WORLD)};
    keep(of, sizeof of);
    is = shmem_long_sum_reduce(rows, (long *)(void *)d, (long *)(void *)s, 3);
    keep(&is, sizeof is);
    keep(d, 24);
    is = shmem_team_create_ctx(columns, 0, &ctx);
    keep(&is, sizeof is);
    long got = shmem_ctx_long_g(ctx, (long *)(void *)s, 0);
    keep(&got, sizeof got);
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(columns);
    is = shmem_team_n_pes(SHMEM_TEAM_SHARED);
    keep(&is, sizeof is);
    is = shmem_team_my_pe(SHMEM_TEAM_SHARED);
    keep(&is, sizeof is);
    is = shmem_long_max_reduce(SHMEM_TEAM_SHARED, (long *)(void *)d, (long *)(void *)s, 2);
    keep(&is, sizeof is);
    keep(d, 16);

    begin("constants");
    static const long fixed[3] = {1, 2, 3};
    shmem_getmem(out, fixed, sizeof fixed, next);
    keep(out, sizeof fixed);
    got = shmem_long_g(fixed + 1, next) + shmem_long_atomic_fetch(fixed + 2, next);
    keep(&got, sizeof got);

    begin("heap and locks");
    long *block = shmem_malloc(1000);
    block[0] = shmem_my_pe();
    block = shmem_realloc(block, 2000);
    shmem_barrier_all();
    got = shmem_long_g(block, next);
    keep(&block, sizeof block);
    keep(&got, sizeof got);
    shmem_free(block);
    shmem_set_lock(&lock);
    got = shmem_long_atomic_fetch_add((long *)(void *)d, 1, 0);
    shmem_clear_lock(&lock);
    keep(&got, sizeof got);
    while ((is = shmem_test_lock(&lock)) != 0)
        keep(&is, 1);
    shmem_clear_lock(&lock);

    begin("waits"); /* a ring, in which a PE waits for the previous one */
    if (shmem_my_pe() > 0)
        shmem_uint64_wait_until(&signals, SHMEM_CMP_EQ, 77);
    if (next > 0) {
        shmem_uint64_atomic_set(&signals, 77, next);
        shmem_quiet();
    }
    uint64_t seen = shmem_my_pe() > 0 ? signals : shmem_signal_fetch(&signals);
    keep(&seen, sizeof seen);
    shmem_barrier_all();
}

/* Calls that are not repeated as they were. */
static void differ(const char *form) {
    int is_first = shmem_ft_algo_init();
    long *sum = (long *)(void *)d, *of = (long *)(void *)s;
    begin(form);
    if (strcmp(form, "less") == 0 && is_first)
        shmem_long_g(of, next);
    if (strcmp(form, "more") == 0 && !is_first)
        shmem_long_g(of, next);
    if (strcmp(form, "partly") == 0 && is_first)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sum, of, 3);
    begin(form);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sum, of, 3);
    keep(sum, 24);
    for (int at = 0; at < 1200 && strcmp(form, "large") == 0; at++)
        shmem_getmem(work, d + at % 90, 4000, next);
}

/* The calls of the table. */
static void table(void) {
    (void)sync_words;
/* calls */
}

int main(int argc, char **argv) {
    const char *form = argc > 1 ? argv[1] : "table";
    unsigned char all[ROOM];
    shmem_init();
    n = shmem_n_pes();
    next = (shmem_my_pe() + 1) % n;
    kept = all;
    memset(ones, 1, sizeof ones);
    if (strcmp(form, "table") == 0) {
        table();
        apart();
    } else if (strcmp(form, "unheard") == 0) {
        table();
        length = 0;
        keep("", 1);
    } else {
        differ(form);
    }
    size_t has = length;
    if (shmem_ft_algo_init()) {
        memcpy(before, all, has);
        had = has;
    }
    int steps = getenv("STEPS") ? atoi(getenv("STEPS")) : 5;
    while (step < steps) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
        step++;
        shmem_barrier_all();
    }
    CHECK(had == has && has > 0);
    for (size_t at = 0; at < has; at++)
        if (all[at] != before[at]) {
            while (made[calls - 1].at > at)
                calls--;
            fprintf(stderr, "WRONG: PE %d: %s\n", shmem_my_pe(), made[calls - 1].name);
            shmem_global_exit(WRONG);
        }
    printf("PE %d is right\n", shmem_my_pe());
    shmem_finalize();
    return 0;
}
