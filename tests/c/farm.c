/*
 * farm: tasks over a global array, on PEs of which some are lost without a substitute.
 *
 *     farm TASKS [PE@ROUND ..]      PE kills itself in that round, with some of its tasks done
 *
 * All surviving PEs have all results of a round. The survivors repeat what a lost PE had computed
 * since.
 */
#include "test.h"

#include <signal.h>

enum { TASKS = 4096, ROUND = 8 };

static uint64_t own[TASKS], all[TASKS];

static uint64_t work(int task) {
    uint64_t sum = 1;
    for (int i = 0; i < 2000; i++)
        sum = mixed(sum, (uint64_t)task * 31 + (uint64_t)i);
    return sum | 1; /* 0 is a task that is not done */
}

static int dies(int argc, char **argv, int round) {
    int pe = 0, at = 0;
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "%d@%d", &pe, &at) == 2 && pe == shmem_my_pe() && at == round)
            return 1;
    return 0;
}

/* Computes this member's next tasks, at most ROUND; dies partway if `die`. */
static long compute(int tasks, int member, int members, int die) {
    long done = 0;
    for (int task = 0, nth = 0; task < tasks && done < ROUND; task++) {
        if (all[task] || nth++ % members != member)
            continue;
        own[task] = work(task);
        if (++done == ROUND / 2 && die)
            raise(SIGKILL);
    }
    if (die)
        raise(SIGKILL);
    return done;
}

static int left(int tasks) {
    int count = 0;
    for (int task = 0; task < tasks; task++)
        count += all[task] == 0;
    return count;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    int tasks = atoi(argv[1]);
    long done = 0;
    shmem_team_t team = SHMEM_TEAM_WORLD;
    for (int round = 0; left(tasks); round++) {
        int member = shmem_team_my_pe(team), members = shmem_team_n_pes(team);
        done += compute(tasks, member, members, dies(argc, argv, round));
        if (shmem_uint64_or_reduce(team, all, own, (size_t)tasks) != 0) {
            shmem_team_t living = SHMEM_TEAM_INVALID;
            CHECK(shmemx_ft_shrink(team, &living) == SHMEM_FT_SUCCESS);
            if (team != SHMEM_TEAM_WORLD)
                shmem_team_destroy(team);
            team = living;
        }
        memcpy(own, all, sizeof own); /* each survivor contributes what lost PEs had done before */
    }
    for (int task = 0; task < tasks; task++)
        CHECK(all[task] == work(task));
    shmem_barrier_all();
    if (shmem_team_my_pe(team) == 0)
        printf("%d tasks done, %d PEs at the end\n", tasks, shmem_team_n_pes(team));
    printf("PE %d did %ld\n", shmem_my_pe(), done);
    shmem_finalize();
    return 0;
}
