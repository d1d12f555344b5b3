/*
 * A process that takes long to end, however it ends: its descriptors are closed and its program no
 * longer runs, but the kernel does not report its end yet. Processes with much memory do so on a
 * loaded machine.
 *
 * A thread with its own descriptor table, which it closes, is held at its exit by a tracer, a
 * process outside the group, for a number of milliseconds.
 */
#ifndef RAIDSHMEM_HOLD_H
#define RAIDSHMEM_HOLD_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int held_pipe[2], tracer_pipe[2];

static void hold_must(int well, const char *what) {
    if (!well) {
        perror(what);
        _exit(1);
    }
}

static void *held_thread(void *nothing) {
    pid_t thread = (pid_t)syscall(SYS_gettid);
    hold_must(unshare(CLONE_FILES) == 0, "unshare");
    hold_must(write(held_pipe[1], &thread, sizeof thread) == sizeof thread, "write");
    hold_must(syscall(SYS_close_range, 0, ~0u, 0) == 0, "close_range");
    for (;;)
        pause();
    return nothing;
}

static void trace(long milliseconds) {
    pid_t thread;
    hold_must(setpgid(0, 0) == 0, "setpgid");
    hold_must(read(held_pipe[0], &thread, sizeof thread) == sizeof thread, "read");
    hold_must(ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACEEXIT) == 0, "ptrace");
    hold_must(write(tracer_pipe[1], "", 1) == 1, "write");
    hold_must(syscall(SYS_close_range, 0, ~0u, 0) == 0, "close_range");
    int status;
    hold_must(waitpid(thread, &status, __WALL) == thread, "waitpid");
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
    ptrace(PTRACE_DETACH, thread, 0, 0);
    _exit(0);
}

/* From now on the end of this process takes this long. */
static void hold_end(long milliseconds) {
    char byte;
    pthread_t thread;
    hold_must(pipe(held_pipe) == 0 && pipe(tracer_pipe) == 0, "pipe");
    pid_t tracer = fork();
    hold_must(tracer >= 0, "fork");
    if (tracer == 0)
        trace(milliseconds);
    hold_must(pthread_create(&thread, NULL, held_thread, NULL) == 0, "pthread_create");
    hold_must(read(tracer_pipe[0], &byte, 1) == 1, "read");
}

#endif
