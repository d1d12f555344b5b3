/* A process that kills itself, or another one, at a moment unrelated to its program. */
#ifndef RAIDSHMEM_KILL_LATER_H
#define RAIDSHMEM_KILL_LATER_H

#include <signal.h>
#include <time.h>
#include <unistd.h>

static inline long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* The process to kill instead of the own one. */
static pid_t kill_instead;

/* The body of a thread: kills the process after a number of nanoseconds. */
static inline void *kill_later(void *delay) {
    long end = nanoseconds() + *(long *)delay;
    while (nanoseconds() < end)
        ;
    kill(kill_instead ? kill_instead : getpid(), SIGKILL);
    return NULL;
}

#endif
