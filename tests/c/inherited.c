/*
 * inherited: prints what this process inherited: ignored and blocked signals, umask, limits.
 *
 * bare       without the library
 * (nothing)  as a PE, and as a substitute
 * loud       prints much while it computes instead, to whatever descriptors it has
 */
#include "test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void show(void) {
    static const int limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA};
    char line[1000];
    int at = snprintf(line, sizeof line, "ignored");
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        struct sigaction how;
        if (!sigaction(signal, NULL, &how) && how.sa_handler == SIG_IGN)
            at += snprintf(line + at, sizeof line - at, " %d", signal);
    }
    at += snprintf(line + at, sizeof line - at, ", blocked");
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (sigismember(&blocked, signal) == 1)
            at += snprintf(line + at, sizeof line - at, " %d", signal);
    mode_t mask = umask(0);
    umask(mask);
    at += snprintf(line + at, sizeof line - at, ", umask %o, limits", (unsigned)mask);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        getrlimit(limits[i], &limit);
        at += snprintf(line + at, sizeof line - at, " %lld", (long long)limit.rlim_cur);
    }
    line[at++] = '\n';
    if (write(1, line, at) != at)
        exit(WRONG);
}

static long sum, round_of;

static void check(void) {
    CHECK(sum == round_of);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int loud = !strcmp(how, "loud");
    if (!loud)
        show();
    if (!strcmp(how, "bare"))
        return 0;
    shmem_init();
    while (round_of < 4) {
        if (!saved(check))
            continue;
        for (int i = 0; loud && i < 1000; i++) {
            printf("line %d of round %ld, neither memory nor a message\n", i, round_of);
            fflush(stdout);
        }
        shmem_long_atomic_add(&sum, 1, (shmem_my_pe() + 1) % shmem_n_pes());
        round_of++;
        shmem_barrier_all();
    }
    check();
    shmem_finalize();
    return 0;
}
