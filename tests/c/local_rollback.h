/*
 * local_rollback.h: the common part of programs in which a PE dies before one of its calls and
 * rolls back locally. Each program defines turn(), which runs in every round.
 *
 *     PROGRAM PE CALL [what]   the original of that PE kills itself before its call number CALL;
 *                              with CALL 0 no PE dies; with CALL -N a thread kills it N
 *                              microseconds after its first checkpoint, at any point
 *
 * Every PE's result depends on all the data it receives, so the sum is right only if every call
 * returned the right data. PE 0 prints it, and the victim the number of its calls.
 *
 * what: again    the first substitute kills itself too, in its next call
 *       node     it kills its agent, with which its node ends, then or at that point
 *       others   as turn() defines them
 */
#ifndef LOCAL_ROLLBACK_H
#define LOCAL_ROLLBACK_H

#include "test.h"

#include "kill_later.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { ROUNDS = 9, EVERY = 3 };

/* Static variables are restored by the checkpoint. */
static long round_, value;

/* State of this process, which is not restored. */
struct own {
    int victim, at, calls, me, n, dies;
    const char *what;
};

static void turn(struct own *own);

static inline int is(const struct own *own, const char *what) {
    return !strcmp(own->what, what);
}

/* Runs before each logged call. */
static inline void call(struct own *own) {
    if (own->me != own->victim || ++own->calls != own->at || !own->dies)
        return;
    kill(is(own, "node") ? getppid() : getpid(), SIGKILL);
    for (;;)
        pause();
}

#define CALL(how) (call(own), how)

int main(int argc, char **argv) {
    static long all[64], mine;
    shmem_init();
    CHECK(argc >= 3);
    struct own own_ = {atoi(argv[1]), atoi(argv[2]), 0, shmem_my_pe(), shmem_n_pes(), 0, "plain"};
    struct own *own = &own_;
    own->what = argc > 3 ? argv[3] : own->what;
    own->dies = shmem_ft_algo_init();
    if (own->dies)
        value = own->me + 1;
    if (!own->dies && is(own, "again")) {
        /* The first substitute leaves a mark, so that only it dies. */
        FILE *mark = fopen("mark", "wx");
        if (mark)
            fclose(mark), own->at = 3, own->dies = 1;
    }
    long delay = 0;
    for (;;) {
        if (round_ % EVERY == 0 && !saved(shmem_barrier_all))
            continue;
        if (round_ == ROUNDS)
            break;
        if (own->dies && own->at < 0 && own->me == own->victim && !delay) {
            delay = own->at * -1000L;
            kill_instead = is(own, "node") ? getppid() : 0;
            pthread_t thread;
            pthread_create(&thread, NULL, kill_later, &delay);
        }
        turn(own);
        round_++;
    }
    mine = value;
    CALL(shmem_long_fcollect(SHMEM_TEAM_WORLD, all, &mine, 1));
    uint64_t sum = 0;
    for (int i = 0; i < own->n; i++)
        sum = sum * 1000003 + (uint64_t)all[i];
    if (own->me == 0)
        printf("sum %llu\n", (unsigned long long)sum);
    if (own->me == own->victim)
        printf("calls %d\n", own->calls);
    shmem_finalize();
    return 0;
}

#endif
