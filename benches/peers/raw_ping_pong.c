/*
 * The cost of half a round trip of one word between two processors of this machine, without any
 * library: two threads, each on its own processor, store and poll. No put can be faster.
 *
 * usage: raw_ping_pong               prints `raw_half_ns value`: the best of several batches
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define BATCHES 9
#define TRIPS 20000

static struct {
    _Alignas(128) atomic_long value;
} there, back;

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set); /* a failure only affects the figure */
}

static void wait_for(atomic_long *word, long value) {
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        relax();
}

static void *answer(void *unused) {
    stay_on(1);
    for (long i = 1; i <= (long)BATCHES * TRIPS; i++) {
        wait_for(&there.value, i);
        atomic_store_explicit(&back.value, i, memory_order_release);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    double best = 1e30;
    long i = 0;
    stay_on(0);
    if (pthread_create(&thread, NULL, answer, NULL))
        return 1;
    for (int batch = 0; batch < BATCHES; batch++) {
        struct timespec begun, ended;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (int trip = 0; trip < TRIPS; trip++) {
            atomic_store_explicit(&there.value, ++i, memory_order_release);
            wait_for(&back.value, i);
        }
        clock_gettime(CLOCK_MONOTONIC, &ended);
        double ns = (ended.tv_sec - begun.tv_sec) * 1e9 + (ended.tv_nsec - begun.tv_nsec);
        best = ns / TRIPS / 2 < best ? ns / TRIPS / 2 : best;
    }
    pthread_join(thread, NULL);
    printf("raw_half_ns %.2f\n", best);
    return 0;
}
