/*
 * reuse: in shrink mode, new teams reuse the words of teams that have ended, even while a member
 * has not returned from the last call of such a team.
 *
 *     reuse stopped ROUNDS     a member is stopped as soon as the other one has returned
 *     reuse collect TEAMS      every team collects, whatever its number
 */
#include "test.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static long number, all[64];
static pid_t other;

static shmem_team_t split(shmem_team_t parent, int stride) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_strided(parent, 0, stride, 2, NULL, 0, &team) == 0);
    return team;
}

static void let_go(int signal) {
    (void)signal;
    kill(other, SIGCONT);
}

/* PEs 0 and 1 are a team that ends; PEs 0 and 2 form one after another in its place. */
static void stopped(int rounds) {
    int me = shmem_my_pe();
    struct itimerval soon = {.it_value = {.tv_usec = 100000}}, never = {.it_value = {0}};
    shmem_team_t apart = split(SHMEM_TEAM_WORLD, 2);
    signal(SIGALRM, let_go);
    number = getpid();
    shmem_barrier_all();
    other = (pid_t)shmem_long_g(&number, 1);
    for (int round = 0; round < rounds; round++) {
        shmem_team_t pair = split(SHMEM_TEAM_WORLD, 1);
        if (me < 2)
            shmem_team_sync(pair);
        if (me == 0) { /* with or without having seen this PE's last word */
            kill(other, SIGSTOP);
            setitimer(ITIMER_REAL, &soon, NULL);
        }
        if (me < 2)
            shmem_team_destroy(pair);
        for (int i = 0; i < 40 && me != 1; i++) {
            shmem_team_t team = split(apart, 1);
            CHECK(shmem_team_sync(team) == 0);
            shmem_team_destroy(team);
        }
        if (me == 0) {
            setitimer(ITIMER_REAL, &never, NULL);
            kill(other, SIGCONT);
        }
        shmem_barrier_all();
    }
}

static void collect(int teams) {
    int me = shmem_my_pe();
    for (int i = 0; i < teams; i++) {
        shmem_team_t team = split(SHMEM_TEAM_WORLD, 2);
        if (me % 2 == 0) {
            int at = shmem_team_my_pe(team);
            for (int k = 0; k <= at; k++)
                all[32 + k] = 10 * at + k;
            memset(all, 0, 32 * sizeof *all);
            CHECK(shmem_long_collect(team, all, all + 32, (size_t)at + 1) == 0);
            CHECK(all[0] == 0 && all[1] == 10 && all[2] == 11 && all[3] == 0);
            shmem_team_destroy(team);
        }
    }
}

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc == 3);
    if (!strcmp(argv[1], "stopped"))
        stopped(atoi(argv[2]));
    else
        collect(atoi(argv[2]));
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        printf("%s: as it should be\n", argv[1]);
    shmem_finalize();
    return 0;
}
