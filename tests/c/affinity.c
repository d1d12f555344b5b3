/*
 * affinity: threads keep their CPU binding after their PE was lost.
 *
 *     affinity once|late
 *
 * Two threads wait while the first one runs. The first thread is bound to the PE's last processor,
 * the others to its first and its last in turn. An original PE binds them; a substitute does not
 * (once), or starts them only after its restart (late), so that the bindings it finds were
 * restored.
 *
 * One line per thread: affinity PE thread NUMBER cpus LIST
 */
#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { THREADS = 2, STEPS = 6 };

static long step;

static void *wait_for_the_end(void *end) {
    pthread_barrier_wait(end);
    return NULL;
}

static void begin(pthread_t *threads, pthread_barrier_t *end) {
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_for_the_end, end) == 0);
}

/* Binds a thread to one of the PE's processors: the first or the last. */
static void bind(pthread_t thread, const cpu_set_t *all, int last) {
    int found = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && (last || found < 0); cpu++)
        if (CPU_ISSET(cpu, all))
            found = cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(found, &one);
    CHECK(pthread_setaffinity_np(thread, sizeof one, &one) == 0);
}

static void show(pthread_t thread, int number) {
    cpu_set_t mask;
    CHECK(pthread_getaffinity_np(thread, sizeof mask, &mask) == 0);
    char line[4096];
    int length = sprintf(line, "affinity %d thread %d cpus", shmem_my_pe(), number);
    for (int cpu = 0; cpu < CPU_SETSIZE && length < 4000; cpu++)
        if (CPU_ISSET(cpu, &mask))
            length += sprintf(line + length, " %d", cpu);
    puts(line);
}

static void same(void) { CHECK(step >= 1 && step <= STEPS); }

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int provided;
    shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided);
    pthread_t threads[THREADS] = {0}; /* on the stack: a restart does not restore it */
    pthread_barrier_t end;
    CHECK(pthread_barrier_init(&end, NULL, THREADS + 1) == 0);
    int original = shmem_ft_algo_init(), late = strcmp(argv[1], "late") == 0;
    if (original || !late)
        begin(threads, &end);
    if (original) {
        cpu_set_t all;
        CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
        bind(pthread_self(), &all, 1);
        for (int i = 0; i < THREADS; i++)
            bind(threads[i], &all, i % 2);
    }
    while (step < STEPS) {
        step++;
        if (!saved(same) && !original && late && !threads[0])
            begin(threads, &end);
    }
    show(pthread_self(), 0);
    for (int i = 0; i < THREADS; i++)
        show(threads[i], i + 1);
    pthread_barrier_wait(&end);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    shmem_finalize();
    return 0;
}
