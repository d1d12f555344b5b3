/*
 * Three kernels in the style of NAS (EP, MG, CG), on threads that an original PE binds to one
 * processor each. Half-way a PE is lost; its substitute does not bind its threads itself.
 *
 * usage: kernels STEPS THREADS      a step is one iteration of each kernel, and a checkpoint
 *
 * Prints `PE kernel NAME before NS after NS` for each PE and kernel: medians of the steps before
 * and after the middle. Run it with run.sh, which alternates SHMEM_FT_AFFINITY.
 */
#define _GNU_SOURCE
#include "../../tests/c/restart.h"

#include <pthread.h>
#include <sched.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KERNELS = 3, STEPS_MAX = 4096, THREADS_MAX = 64, SIDE = 96, ROWS = 1 << 16, BAND = 27 };

static const char *const names[KERNELS] = {"ep", "mg", "cg"};

/* Private memory of a PE that no checkpoint holds: it is recomputed in each step. */
struct shared {
    pthread_barrier_t begin, end;
    int threads, over;
    double (*grid)[SIDE][SIDE], (*next)[SIDE][SIDE];
    double *x, *y, *value;
    int *column, kernel;
};

struct one {
    struct shared *shared;
    int number;
    double sum;
};

/* Saved by checkpoints: the step, and the time of each kernel in each step. */
static long step;
static double times[KERNELS][STEPS_MAX];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "kernels: %s\n", what);
    shmem_global_exit(1);
}

/* Counts random points inside a circle: computation only. */
static void ep(struct one *one) {
    uint64_t state = 271828183 + (uint64_t)one->number;
    for (int i = 0; i < 1 << 18; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double x = (double)(state >> 33) / (1u << 31), y = (double)(uint32_t)state / 4294967296.0;
        one->sum += x * x + y * y <= 1;
    }
}

/* Sweeps a seven-point stencil: sequential memory accesses. */
static void mg(struct one *one) {
    struct shared *shared = one->shared;
    int from = 1 + (SIDE - 2) * one->number / shared->threads;
    int to = 1 + (SIDE - 2) * (one->number + 1) / shared->threads;
    for (int i = from; i < to; i++)
        for (int j = 1; j < SIDE - 1; j++)
            for (int k = 1; k < SIDE - 1; k++)
                shared->next[i][j][k] =
                    (shared->grid[i - 1][j][k] + shared->grid[i + 1][j][k] +
                     shared->grid[i][j - 1][k] + shared->grid[i][j + 1][k] +
                     shared->grid[i][j][k - 1] + shared->grid[i][j][k + 1]) /
                    6;
    one->sum += shared->next[from][1][1];
}

/* Multiplies a sparse matrix by a vector: random memory accesses. */
static void cg(struct one *one) {
    struct shared *shared = one->shared;
    int from = (int)((long)ROWS * one->number / shared->threads);
    int to = (int)((long)ROWS * (one->number + 1) / shared->threads);
    for (int row = from; row < to; row++) {
        double sum = 0;
        for (int i = row * BAND; i < (row + 1) * BAND; i++)
            sum += shared->value[i] * shared->x[shared->column[i]];
        shared->y[row] = sum;
        one->sum += sum;
    }
}

static void *work(void *argument) {
    static void (*const kernels[KERNELS])(struct one *) = {ep, mg, cg};
    struct one *one = argument;
    for (;;) {
        pthread_barrier_wait(&one->shared->begin);
        if (one->shared->over)
            return NULL;
        kernels[one->shared->kernel](one);
        pthread_barrier_wait(&one->shared->end);
    }
}

static void *memory(size_t count, size_t size) {
    void *found = calloc(count, size);
    if (!found)
        fail("out of memory");
    return found;
}

static void fill(struct shared *shared) {
    uint64_t state = 1;
    shared->grid = memory(SIDE, sizeof *shared->grid);
    shared->next = memory(SIDE, sizeof *shared->next);
    shared->x = memory(ROWS, sizeof *shared->x);
    shared->y = memory(ROWS, sizeof *shared->y);
    shared->value = memory((size_t)ROWS * BAND, sizeof *shared->value);
    shared->column = memory((size_t)ROWS * BAND, sizeof *shared->column);
    for (int i = 0; i < ROWS; i++)
        shared->x[i] = 1.0 / (1 + i % 7);
    for (int i = 0; i < ROWS * BAND; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        shared->column[i] = (int)(state >> 33) % ROWS;
        shared->value[i] = 1.0 / (1 + i % 5);
    }
}

/* Binds the threads to the processors of the PE in turn, one each. */
static void bind(pthread_t *threads, int count) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        fail("no mask");
    for (int i = 0, cpu = -1; i < count; i++) {
        do
            cpu = (cpu + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(cpu, &all));
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (pthread_setaffinity_np(threads[i], sizeof one, &one) != 0)
            fail("a thread cannot be bound");
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *from, long count) {
    double sorted[STEPS_MAX];
    for (long i = 0; i < count; i++)
        sorted[i] = from[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    return sorted[count / 2];
}

int main(int argc, char **argv) {
    int provided;
    shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided);
    long steps = argc == 3 ? atol(argv[1]) : 0;
    struct shared shared = {.threads = argc == 3 ? atoi(argv[2]) : 0};
    if (steps < 4 || steps > STEPS_MAX || shared.threads < 1 || shared.threads > THREADS_MAX)
        fail("usage: kernels STEPS THREADS, with 4 to 4096 steps and 1 to 64 threads");
    fill(&shared);
    pthread_t threads[THREADS_MAX];
    struct one ones[THREADS_MAX];
    pthread_barrier_init(&shared.begin, NULL, (unsigned)shared.threads + 1);
    pthread_barrier_init(&shared.end, NULL, (unsigned)shared.threads + 1);
    for (int i = 0; i < shared.threads; i++) {
        ones[i] = (struct one){&shared, i, 0};
        if (pthread_create(&threads[i], NULL, work, &ones[i]) != 0)
            fail("a thread cannot be begun");
    }
    if (shmem_ft_algo_init())
        bind(threads, shared.threads);
    while (step < steps) {
        for (shared.kernel = 0; shared.kernel < KERNELS; shared.kernel++) {
            double begun = now_ns();
            pthread_barrier_wait(&shared.begin);
            pthread_barrier_wait(&shared.end);
            times[shared.kernel][step] = now_ns() - begun;
        }
        step++;
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
            restart();
    }
    shared.over = 1;
    pthread_barrier_wait(&shared.begin);
    for (int i = 0; i < shared.threads; i++)
        pthread_join(threads[i], NULL);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        printf("%d kernel %s before %.0f after %.0f\n", shmem_my_pe(), names[kernel],
               median(times[kernel], steps / 2),
               median(times[kernel] + steps / 2, steps - steps / 2));
    shmem_finalize();
    return 0;
}
