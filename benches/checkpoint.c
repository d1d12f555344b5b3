/*
 * The cost of a checkpoint, compared with plain copies of the same bytes by the same PEs.
 *
 * usage: checkpoint save MIB ROUNDS[+N]   prints `figure value`: medians in ms, memory in MiB
 *        checkpoint table MIB ROUNDS      likewise, with a read-only table of 19 in 20 MiB
 *        checkpoint lose MIB process      PE 1 kills itself after the second checkpoint
 *        checkpoint lose MIB node         loses whatever --kill-node says (1@2)
 *
 * `save`: copies and checkpoints alternate, so that other load affects both. Every byte changes
 * between two checkpoints (`checkpoint_ms`); then, N times, one block of 64 KiB in twenty, chosen
 * anew on every PE and each time (`dirty_ms`; `dirty_copy_ms` is its copy); the first one is
 * `first_ms`. A time is from a barrier before to a barrier after; `protects_ms` ends when the
 * checkpoint protects, which is later if parity is computed in the background. `live_mib` and
 * `pss_mib` are the sums over all PEs of the saved data and of their memory as the kernel accounts
 * for it.
 *
 * `table`: only the rest changes and is copied; the table counts as live.
 *
 * `lose`: `copy_ms` is one process copying the bytes of one PE; `died_at_ms` and `swept_at_ms` are
 * the death and the end of the first sweep over all data after it, by one clock; `sweep_ms` is that
 * sweep in the same process later. `agreed_at_ms` is the agreement of the second checkpoint, after
 * which a node is lost, and `protected_at_ms` the end of the restart, if the job then survives the
 * loss of any other node.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK (64 << 10)
#define MOST 101

static int me, pes;
static size_t bytes, table_bytes;
static unsigned char *data, *copy;
static uint64_t seed = 88172645463325252u;
static long pss_kib, pss_sum, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long sync_words[SHMEM_REDUCE_SYNC_SIZE];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static uint64_t any(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say(const char *figure, double *runs, int count) {
    qsort(runs, count, sizeof *runs, by_value);
    if (me == 0)
        printf("%s %.3f\n", figure, runs[count / 2]);
}

static void fail(const char *what) {
    fprintf(stderr, "checkpoint: PE %d: %s\n", me, what);
    shmem_global_exit(1);
}

static double copied(void) {
    shmem_barrier_all();
    double begun = now();
    memcpy(copy, data, bytes);
    __asm__ volatile("" : : "r"(copy) : "memory");
    shmem_barrier_all();
    return now() - begun;
}

static double saved(void) {
    shmem_barrier_all();
    double begun = now();
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        fail("the checkpoint failed");
    shmem_barrier_all();
    return now() - begun;
}

/* Returns the time until the last checkpoint protects. */
static double flushed(void) {
    double begun = now();
    if (shmemx_ft_flush() != SHMEM_FT_SUCCESS)
        fail("the checkpoint failed");
    shmem_barrier_all();
    return now() - begun;
}

/* Changes every word by an amount that differs by PE, so that parity is not trivial. */
static double sweep(void) {
    double begun = now();
    uint64_t *words = (uint64_t *)data;
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = words[i] * 5 + i + me;
    return now() - begun;
}

/* Changes one word in each of a twentieth of the blocks. */
static void touch(void) {
    size_t blocks = bytes / BLOCK;
    for (size_t i = 0; i < blocks / 20; i++)
        data[any() % blocks * BLOCK + any() % BLOCK]++;
}

/* Returns the proportional share of this process's memory, as the kernel counts it. */
static long share(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %ld kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

static void memory(void) {
    shmem_barrier_all();
    pss_kib = share();
    shmem_barrier_all();
    shmem_long_sum_to_all(&pss_sum, &pss_kib, 1, 0, 0, pes, work, sync_words);
    if (me == 0)
        printf("live_mib %.3f\npss_mib %.3f\n", pes * ((bytes + table_bytes) / 1048576.0), pss_sum / 1024.0);
}

static void save(int rounds, int dirty) {
    double copies[MOST], saves[MOST], protects[MOST], first = 0;
    sweep();
    memory(); /* with data, copy and, if the mode keeps one, the store for them */
    copied();
    first = saved();
    say("first_ms", &first, 1);
    for (int i = 0; i < rounds; i++) {
        sweep();
        copies[i] = copied();
        saves[i] = saved();
        protects[i] = saves[i] + flushed();
    }
    say("copy_ms", copies, rounds);
    say("checkpoint_ms", saves, rounds);
    say("protects_ms", protects, rounds);
    memory();
    if (dirty == 0)
        return;
    for (int i = -8; i < dirty; i++) { /* the first eight let the library adapt */
        touch();
        copies[i < 0 ? 0 : i] = copied();
        saves[i < 0 ? 0 : i] = saved();
    }
    say("dirty_copy_ms", copies, dirty);
    say("dirty_ms", saves, dirty);
}

static void recover(void) {
    int *lost = NULL, *status = NULL;
    size_t n = 0;
    shmem_query_fault(&lost, &status, &n);
    shmem_restart_pes(lost, n);
    shmem_barrier_all();
    free(lost), free(status);
}

/* Returns 1 if the job survives the loss of any one of its nodes, of which each PE began on one. */
static int survives_any_node(void) {
    int all = 1;
    for (int node = 0; node < shmem_n_pes(); node++)
        all = all && shmemx_ft_survives(SHMEMX_FT_NODE, node) == 1;
    return all;
}

/* The dying PE prints the time of its death on standard output. If the launcher kills the node when
 * its PEs reach a step, PE 0 prints the time at which it reaches that step. */
static void lose(int kills) {
    double runs[MOST], begun;
    int recovered = 0;
    if (shmem_ft_algo_init()) {
        sweep();
        for (int i = 0; i < 7; i++) {
            shmem_barrier_all();
            begun = now();
            if (me == 0)
                memcpy(copy, data, bytes);
            runs[i] = now() - begun;
        }
        say("copy_ms", runs, 7);
    }
    for (int step = 0; step < 4;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            step = (int)shmemx_ft_checkpoint_number();
            recovered = 1;
            if (me == 0 && survives_any_node())
                printf("protected_at_ms %.3f\n", now());
            sweep();
            if (me == 0)
                printf("swept_at_ms %.3f\n", now());
            continue;
        }
        step++;
        if (step == 2 && me == 0 && !recovered)
            printf("agreed_at_ms %.3f\n", now());
        double took = sweep();
        if (me == 0 && recovered)
            say("sweep_ms", &took, 1);
        if (step == 2 && me == 1 && kills && shmem_ft_algo_init()) {
            printf("died_at_ms %.3f\n", now());
            fflush(stdout);
            raise(SIGKILL);
        }
    }
}

/* Declares the table read-only, so that no copy is kept; in mode `none` it has no effect, and is
   reported. */
static void declare(void) {
    table_bytes = bytes / 20 / BLOCK * BLOCK * 19;
    bytes -= table_bytes;
    unsigned char *table = shmem_malloc(table_bytes);
    if (!table)
        fail("not enough memory");
    memset(table, me + 1, table_bytes);
    double begun = now();
    shmemx_ft_readonly(table, table_bytes);
    double took = now() - begun;
    say("declare_ms", &took, 1);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    me = shmem_my_pe(), pes = shmem_n_pes();
    seed += me;
    if (argc != 4)
        fail("usage: checkpoint save MIB ROUNDS[+N] | checkpoint table MIB ROUNDS | "
             "checkpoint lose MIB process|node");
    bytes = strtoul(argv[2], NULL, 10) << 20;
    int saves = strcmp(argv[1], "lose") != 0;
    if (strcmp(argv[1], "table") == 0)
        declare();
    data = shmem_malloc(bytes);
    /* A recovery makes no copies: the substitute needs no memory to copy to. */
    if (saves || (me == 0 && shmem_ft_algo_init()))
        copy = malloc(bytes);
    if (!data || (saves && !copy))
        fail("not enough memory");
    if (copy)
        memset(copy, 1, bytes);
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync_words[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    const char *plus = strchr(argv[3], '+');
    int rounds = atoi(argv[3]), dirty = plus ? atoi(plus) : 0;
    if (rounds > MOST || dirty > MOST)
        fail("at most 101 rounds");
    if (saves)
        save(rounds, dirty);
    else
        lose(strcmp(argv[3], "process") == 0);
    shmem_finalize();
    return 0;
}
