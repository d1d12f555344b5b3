/*
 * fewer: operations of jobs in shrink mode.
 *
 *     fewer twice           a put and quiet, and the update of two copies
 *     fewer ring TURNS      put, get and accumulate in a displaced ring, before and after a loss
 *     fewer meet TURNS      barriers and 8-byte reductions, which the usual modes make too
 *     fewer read MIB        the last checkpoint of a lost PE, decoded from parity
 *
 * Lines are `name value`; times are those of PE 0, medians of batches in alternation.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONG = 1 << 20, BATCHES = 41, LOST = 1 };

static char *there, *own;
static int me, pes;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 2];
}

static void twice(void) {
    double once_ns[BATCHES], twice_ns[BATCHES];
    struct {
        const char *name;
        size_t bytes;
        int times;
    } sizes[] = {{"8", 8, 2000}, {"1M", LONG, 8}};
    for (int size = 0; size < 2; size++) {
        int times = sizes[size].times;
        size_t bytes = sizes[size].bytes;
        for (int batch = 0; batch < BATCHES && me == 0; batch++) {
            double begun = now();
            for (int i = 0; i < times; i++) {
                shmem_putmem(there, own, bytes, 1);
                shmem_quiet();
            }
            once_ns[batch] = (now() - begun) / times;
            begun = now();
            for (int i = 0; i < times; i++)
                shmemx_ft_put2(there, own, bytes, 1, 2);
            twice_ns[batch] = (now() - begun) / times;
        }
        if (me == 0)
            printf("put_%s_ns %.1f\nput2_%s_ns %.1f\n", sizes[size].name, median(once_ns, BATCHES),
                   sizes[size].name, median(twice_ns, BATCHES));
        shmem_barrier_all();
    }
}

/* Updates a remote array: OpenSHMEM adds words one by one, or the caller does. */
static void accumulate(size_t bytes, int pe) {
    static long *sum;
    if (bytes == sizeof(long)) {
        shmem_long_atomic_add((long *)there, 1, pe);
        shmem_quiet();
        return;
    }
    if (!sum)
        sum = malloc(LONG);
    shmem_getmem(sum, there, bytes, pe);
    for (size_t i = 0; i < bytes / sizeof *sum; i++)
        sum[i] += ((long *)own)[i];
    shmem_putmem(there, sum, bytes, pe);
    shmem_quiet();
}

static void operation(int which, size_t bytes, int pe) {
    if (which == 0) {
        shmem_putmem(there, own, bytes, pe);
        shmem_quiet();
    } else if (which == 1)
        shmem_getmem(own, there, bytes, pe);
    else
        accumulate(bytes, pe);
}

/* Each PE operates on the PE half-way round the ring of live PEs. */
static void ring(shmem_team_t team, const char *when, int turns) {
    static const char *names[] = {"put", "get", "acc"};
    double ns[BATCHES];
    int members = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
    int to = shmem_team_translate_pe(team, (mine + members / 2) % members, SHMEM_TEAM_WORLD);
    for (int which = 0; which < 3; which++)
        for (int large = 0; large < 2; large++) {
            size_t bytes = large ? LONG : sizeof(long);
            int times = large ? 1 + turns / 100 : turns, batches = BATCHES / 3;
            for (int batch = 0; batch < batches; batch++) {
                shmem_team_sync(team);
                double begun = now();
                for (int i = 0; i < times; i++)
                    operation(which, bytes, to);
                ns[batch] = (now() - begun) / times;
            }
            if (mine == 0)
                printf("%s_%s_%s_ns %.1f\n", when, names[which], large ? "1M" : "8",
                       median(ns, batches));
        }
}

static void rings(int turns) {
    ring(SHMEM_TEAM_WORLD, "whole", turns);
    shmem_barrier_all();
    if (me == LOST)
        raise(SIGKILL);
    while (shmem_team_sync(SHMEM_TEAM_WORLD) == 0)
        ;
    shmem_restart_pes(NULL, 0);
    shmem_team_t living = SHMEM_TEAM_INVALID;
    if (shmemx_ft_shrink(SHMEM_TEAM_WORLD, &living) != SHMEM_FT_SUCCESS)
        shmem_global_exit(1);
    ring(living, "fault", turns);
}

static void meet(int turns) {
    static long own_value, sum;
    double sync_ns[BATCHES], reduce_ns[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        double begun = now();
        for (int i = 0; i < turns; i++)
            shmem_sync_all();
        sync_ns[batch] = (now() - begun) / turns;
        begun = now();
        for (int i = 0; i < turns; i++)
            shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &own_value, 1);
        reduce_ns[batch] = (now() - begun) / turns;
    }
    if (me == 0)
        printf("sync_ns %.1f\nreduce_ns %.1f\n", median(sync_ns, BATCHES),
               median(reduce_ns, BATCHES));
}

static void read_all(size_t bytes) {
    char *data = shmem_malloc(bytes), *into = malloc(bytes);
    double ms[5];
    uint64_t number = 0;
    for (size_t i = 0; i < bytes / 8; i++)
        ((uint64_t *)data)[i] = (i + 1) * (uint64_t)(me + 3);
    memset(into, 1, bytes);
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        shmem_global_exit(1);
    if (me == LOST)
        raise(SIGKILL);
    while (shmem_team_sync(SHMEM_TEAM_WORLD) == 0)
        ;
    shmem_restart_pes(NULL, 0);
    for (int turn = 0; turn < 5 && me == 0; turn++) {
        double begun = now();
        if (shmemx_ft_get_checkpoint(into, data, bytes, LOST, &number) != SHMEM_FT_SUCCESS)
            shmem_global_exit(1);
        ms[turn] = 1e-6 * (now() - begun);
        if (((uint64_t *)into)[bytes / 8 - 1] != bytes / 8 * (uint64_t)(LOST + 3))
            shmem_global_exit(2);
    }
    if (me == 0)
        printf("read_ms %.3f\n", median(ms, 5));
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    me = shmem_my_pe(), pes = shmem_n_pes();
    there = shmem_calloc(1, LONG), own = malloc(LONG);
    memset(own, 1, LONG); /* pages never written share the kernel's zero page */
    const char *what = argc > 1 ? argv[1] : "twice";
    if (!strcmp(what, "twice"))
        twice();
    else if (!strcmp(what, "ring"))
        rings(argc > 2 ? atoi(argv[2]) : 500);
    else if (!strcmp(what, "meet"))
        meet(argc > 2 ? atoi(argv[2]) : 20);
    else
        read_all((argc > 2 ? (size_t)atol(argv[2]) : 64) << 20);
    shmem_finalize();
    return 0;
}
