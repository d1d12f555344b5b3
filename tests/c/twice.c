/*
 * twice: PEs die in the midst of updating two copies, one after another.
 *
 *     twice SEED LATEST     a thread of the victim kills it up to LATEST nanoseconds from the start
 *     twice at STEP ..      one victim each dies when it reaches that page of the data that it
 *                           puts; the pages of the second copy follow those of the first, and with
 *                           -1 it dies between the copies and the mark
 *
 * Copies are on PEs 0 and 2; every other PE in turn updates them, and after them a mark, until it
 * dies. One of the copies is then whole, and both are as new as either mark says.
 */
#include "test.h"

#include "kill_later.h"

#include <pthread.h>
#include <sys/mman.h>

enum { WORDS = 1 << 15, HOME = 0, SHADOW = 2, PAGE = 4096, BETWEEN = -1, NEVER = -2 };

static _Alignas(PAGE) long copy[WORDS];
static _Alignas(PAGE) long own[WORDS];
static long mark, least, most, marks[2];
static volatile sig_atomic_t step = NEVER;

/* Counts the pages that the victim reaches. */
static void come(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if (step-- == 0)
        kill(getpid(), SIGKILL);
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    if (page < (char *)own || page >= (char *)(own + WORDS))
        abort();
    mprotect(own, sizeof own, PROT_NONE);
    mprotect(page, PAGE, PROT_READ);
}

static void update(long number) {
    mprotect(own, sizeof own, PROT_READ | PROT_WRITE);
    for (int i = 0; i < WORDS; i++)
        own[i] = number;
    if (step >= 0)
        mprotect(own, sizeof own, PROT_NONE);
    CHECK(shmemx_ft_put2(copy, own, sizeof own, HOME, SHADOW) == SHMEM_FT_SUCCESS);
    if (step == BETWEEN)
        raise(SIGKILL);
    CHECK(shmemx_ft_put2(&mark, &number, sizeof number, HOME, SHADOW) == SHMEM_FT_SUCCESS);
}

/* Updates until this PE dies. */
static void write_all(long number, long latest, uint64_t random) {
    static long delay;
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = come, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    if (step == NEVER) {
        delay = (long)(random % (uint64_t)latest);
        CHECK(pthread_create(&thread, NULL, kill_later, &delay) == 0);
    }
    for (;; number++)
        update(number);
}

/* Examines the copies on PE 0 once all know that the writer is dead. Returns the torn one: 1 for
 * the first, 2 for the second. */
static int look(void) {
    least = most = copy[0];
    for (int i = 0; i < WORDS; i++) {
        least = copy[i] < least ? copy[i] : least;
        most = copy[i] > most ? copy[i] : most;
    }
    shmem_barrier_all();
    if (shmem_my_pe() != HOME)
        return 0;
    long there[2] = {shmem_long_g(&least, SHADOW), shmem_long_g(&most, SHADOW)};
    long marked = shmem_long_g(&mark, SHADOW);
    marked = mark > marked ? mark : marked;
    CHECK(least == most || there[0] == there[1]);
    CHECK(least >= marked && there[0] >= marked);
    CHECK(most <= marked + 1 && there[1] <= marked + 1);
    return (least != most) + 2 * (there[0] != there[1]);
}

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc > 2 && shmem_n_pes() > 3);
    uint64_t seed = (uint64_t)atol(argv[1]);
    int me = shmem_my_pe(), torn[3] = {0}, writers = 0, steps = !strcmp(argv[1], "at");
    CHECK(!steps || argc - 2 == shmem_n_pes() - 2);
    for (int writer = 1; writer < shmem_n_pes(); writer++) {
        if (writer == SHADOW)
            continue;
        writers++;
        shmem_barrier_all();
        if (me == writer) {
            long from = mark;
            for (int i = 0; i < 2; i++) {
                marks[i] = shmem_long_g(&mark, i ? SHADOW : HOME);
                from = marks[i] > from ? marks[i] : from;
            }
            if (steps)
                step = atoi(argv[1 + writers]);
            write_all(from + 1, atol(argv[2]), mixed(seed, (uint64_t)writer));
        }
        int all = 1;
        shmemx_ft_agree(SHMEM_TEAM_WORLD, &all); /* returns once the writer is dead */
        shmem_restart_pes(NULL, 0);
        torn[look()]++;
    }
    shmem_barrier_all();
    if (me == 0)
        printf("%d writers died, %d in the first copy, %d in the second\n", writers, torn[1],
               torn[2]);
    shmem_finalize();
    return 0;
}
