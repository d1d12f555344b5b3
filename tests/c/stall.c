/*
 * stall: some PEs wait for long, because one PE has not arrived yet, or never will: `late`, which
 * is the last one, or PE 2 of a team or set. It prints its process id and `ready`, and computes
 * until a test has opened and closed the fifo `go`.
 *
 * barrier      the others are in shmem_barrier_all
 * checkpoint   in shmem_checkpoint_all
 * places       like checkpoint, in their second call, PE 1 in one of its own; `late` is PE 0
 * team         PE 0 is in shmem_team_sync with `late`, the others in shmem_finalize
 * set          like team, with PE 0 in shmem_barrier of PEs 0 and `late`
 * until        PE 0 is in shmem_long_wait_until, PEs 1 and 2 in shmem_finalize; `late` adds to a
 *              word of PE 1, reads it, and releases PE 0
 * signal       like until, with shmem_signal_wait_until
 * lock         PE 0 waits for a lock that `late` holds
 * busy MS      they are in shmem_barrier_all, and `late` computes for MS, without a fifo
 * some         `late` never calls the shmem_checkpoint_all that the others are in
 * early        all but PE 0 never call the shmem_barrier_all that it is in
 * loop         all call shmem_checkpoint_all ROUNDS times, by a counter that a loss rolls back
 */
#define _POSIX_C_SOURCE 200809L

#include "test.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 4 };

static int me, late;
static long word, lock, sync_words[SHMEM_SYNC_SIZE];
static uint64_t signal_word;

static void wait_for_go(void) {
    char byte;
    printf("PE %d is process %d\nready\n", me, (int)getpid());
    fflush(stdout);
    int go = open("go", O_RDONLY);
    while (read(go, &byte, 1) > 0)
        ;
    close(go);
}

static void compute(long ms) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < ms);
}

static void go_together(const char *how) {
    shmem_team_t pair;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, late, 2, NULL, 0, &pair);
    if (me == late)
        wait_for_go();
    if (me != 0 && me != late)
        return;
    if (!strcmp(how, "team"))
        CHECK(shmem_team_sync(pair) == 0);
    else
        shmem_barrier(0, 1, 2, sync_words); /* PEs 0 and 2 */
}

static void let_on(const char *how) {
    if (!strcmp(how, "lock") && me == late)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    if (me == late) {
        wait_for_go();
        shmem_long_atomic_add(&word, 5, 1);
        CHECK(shmem_long_g(&word, 1) == 5);
        if (!strcmp(how, "until"))
            shmem_long_p(&word, 1, 0);
        else if (!strcmp(how, "signal"))
            shmem_signal_set(&signal_word, 1, 0);
        else
            shmem_clear_lock(&lock);
    } else if (me == 0) {
        if (!strcmp(how, "until"))
            shmem_long_wait_until(&word, SHMEM_CMP_NE, 0);
        else if (!strcmp(how, "signal"))
            shmem_signal_wait_until(&signal_word, SHMEM_CMP_NE, 0);
        else {
            shmem_set_lock(&lock);
            shmem_clear_lock(&lock);
        }
    }
}

static void loop(void) {
    for (int round = 0; round < ROUNDS; round++)
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
            recover();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "barrier";
    shmem_init();
    me = shmem_my_pe();
    late = !strcmp(how, "team") || !strcmp(how, "set") ? 2 : shmem_n_pes() - 1;
    if (!strcmp(how, "places"))
        late = 0;
    if (!strcmp(how, "loop"))
        loop();
    else if (!strcmp(how, "team") || !strcmp(how, "set"))
        go_together(how);
    else if (!strcmp(how, "until") || !strcmp(how, "signal") || !strcmp(how, "lock"))
        let_on(how);
    else if (!strcmp(how, "early")) {
        if (me == 0)
            shmem_barrier_all();
    } else if (!strcmp(how, "some")) {
        if (me != late)
            shmem_checkpoint_all();
    } else {
        int places = !strcmp(how, "places");
        CHECK(!places || shmem_checkpoint_all() == SHMEM_FT_SUCCESS); /* it waits for no call */
        if (me == late && !strcmp(how, "busy"))
            compute(atol(argv[2]));
        else if (me == late)
            wait_for_go();
        if (places && me == 1)
            CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
        else if (places || !strcmp(how, "checkpoint"))
            CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
        else
            shmem_barrier_all();
    }
    printf("PE %d is at the end\n", me);
    shmem_finalize();
    return 0;
}
