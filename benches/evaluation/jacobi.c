/*
 * examples/jacobi.c with timers, and with deaths at any time.
 *
 * PE 0 prints a line for each call that saved, failed or restarted, with seconds of the monotonic
 * clock: `checkpoint BEGUN ENDED`, `fault BEGUN ENDED`, `restart BEGUN ENDED`. A call that was
 * skipped because no checkpoint was due prints nothing. All PEs meet before the clock is read, so
 * that the measured time contains no waiting for another PE's computation. A substitute prints
 * `back SECONDS SECONDS` when it has the memory of the last checkpoint.
 *
 * EVALUATION_BEGAN is such a time, and EVALUATION_DEATHS a list of PE:SECONDS after it. A process
 * arms a kernel timer that sends SIGKILL at the next death of its PE; the one after that is its
 * substitute's. Deaths stop once all sweeps are done: the end of the program is not measured.
 */
#define _GNU_SOURCE

#include <shmem.h>
#include <shmem_ft.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void tell(const char *what, double begun) {
    if (shmem_my_pe() == 0) {
        printf("%s %.6f %.6f\n", what, begun, clock_now());
        fflush(stdout);
    }
}

/* The example's variable; it gives `sweeps` its value. */
static long swept, sweeps;

/* The timer's environment variable: no checkpoint holds the environment. */
#define TIMER "EVALUATION_TIMER"

static void arm(void) {
    const char *began = getenv("EVALUATION_BEGAN"), *deaths = getenv("EVALUATION_DEATHS");
    if (!began || !deaths)
        return;
    double next = 0, now = clock_now();
    for (const char *one = deaths; one; one = strchr(one, ',') ? strchr(one, ',') + 1 : NULL) {
        int pe;
        double after;
        if (sscanf(one, "%d:%lf", &pe, &after) != 2 || pe != shmem_my_pe())
            continue;
        double at = atof(began) + after;
        if (at > now && (next == 0 || at < next))
            next = at;
    }
    if (next == 0)
        return;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value = {(time_t)next, (long)((next - (time_t)next) * 1e9)}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, TIMER_ABSTIME, &when, NULL) != 0) {
        perror("evaluation: no timer");
        exit(1);
    }
    char text[32];
    snprintf(text, sizeof text, "%lx", (unsigned long)timer);
    setenv(TIMER, text, 1);
}

static void disarm(void) {
    const char *text = getenv(TIMER);
    if (text)
        timer_delete((timer_t)strtoul(text, NULL, 16));
    unsetenv(TIMER);
}

/* Statics roll back to the checkpoint, and this one is set in all of them: it is 0 in the first
 * call of a process, in which a substitute joins the other PEs and before which it must not meet
 * them. */
static int called;

/* The compiler must keep the only call site that the source has: local rollback requires that a
 * substitute calls the checkpoint from where the lost PE did. */
#ifdef __clang__
__attribute__((noinline, optnone))
#else
__attribute__((noipa))
#endif
static int timed_checkpoint(void) {
    volatile int first = !called;
    if (called)
        shmem_barrier_all();
    else
        called = 1, arm();
    if (swept > 0 && swept == sweeps)
        disarm();
    uint64_t number = shmemx_ft_checkpoint_number();
    double begun = clock_now();
    int status = shmem_checkpoint_all();
    if (first && shmemx_ft_checkpoint_number() > 1) {
        double now = clock_now();
        printf("back %.6f %.6f\n", now, now);
        fflush(stdout);
    }
    if (status != SHMEM_FT_SUCCESS)
        tell("fault", begun);
    else if (shmemx_ft_checkpoint_number() != number)
        tell("checkpoint", begun);
    return status;
}

static void timed_restart(int *pes, size_t n) {
    double begun = clock_now();
    shmem_restart_pes(pes, n);
    tell("restart", begun);
}

#undef shmem_checkpoint_all
#define shmem_checkpoint_all timed_checkpoint
#define shmem_restart_pes timed_restart
#include "../../examples/jacobi.c"
