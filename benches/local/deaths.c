/*
 * Injects a death at any moment of an interval between two checkpoints, and times a job: linked to
 * a program, whose checkpoint calls it intercepts through the profiling interface.
 *
 * LOCAL_DEATH is `PE NUMBER SECONDS`: the original process of that PE dies SECONDS after checkpoint
 * NUMBER. Lines, with seconds of the monotonic clock:
 *
 *     begun SECONDS   the first checkpoint is agreed (PE 0)
 *     ended SECONDS   the last call of the checkpoint has returned (PE 0)
 *     fault SECONDS   a call has failed (PE 0)
 *     again SECONDS   the first call that succeeded after that (PE 0)
 *     death SECONDS   the PE dies
 *     back SECONDS    its substitute has rolled back locally
 *
 * Flags for lines printed once are kept in the environment, which no checkpoint holds.
 */
#define _GNU_SOURCE

#include <shmem.h>
#include <shmem_ft.h>
#include <pshmem.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void tell(const char *what, double when) {
    fprintf(stderr, "%s %.6f\n", what, when);
}

/* Returns true once per process. */
static int first(const char *what) {
    int is = !getenv(what);
    setenv(what, "1", 1);
    return is;
}

static void die_at(double when) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    double part = when - (double)(time_t)when;
    struct itimerspec at = {.it_value = {(time_t)when, (long)(part * 1e9)}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, TIMER_ABSTIME, &at, NULL) != 0) {
        perror("local: no timer");
        exit(1);
    }
    tell("death", when);
}

static void at_end(void) {
    const char *last = getenv("LOCAL_LAST");
    if (last)
        tell("ended", atof(last));
}

int shmem_checkpoint_all(void) {
    int pe = -1, me = shmem_my_pe(), original = shmem_ft_algo_init();
    unsigned long number = 0;
    double after = 0;
    const char *death = getenv("LOCAL_DEATH");
    if (death)
        sscanf(death, "%d %lu %lf", &pe, &number, &after);
    int status = pshmem_checkpoint_all();
    double now = seconds();
    int good = status == SHMEM_FT_SUCCESS;
    if (me == pe && original && good && shmemx_ft_checkpoint_number() == number)
        if (first("LOCAL_ARMED"))
            die_at(now + after);
    if (me == pe && !original && first("LOCAL_BACK") && good)
        tell("back", now);
    if (me == 0) {
        char text[32];
        if (good && first("LOCAL_BEGUN")) {
            tell("begun", now);
            atexit(at_end);
        }
        if (!good && first("LOCAL_FAULT"))
            tell("fault", now);
        if (good && getenv("LOCAL_FAULT") && first("LOCAL_AGAIN"))
            tell("again", now);
        snprintf(text, sizeof text, "%.6f", now);
        setenv("LOCAL_LAST", text, 1);
    }
    return status;
}
