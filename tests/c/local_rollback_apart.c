/*
 * local_rollback_apart: a PE rolls back locally, and then or later something rules that out; in a
 * program of local_rollback.h.
 *
 *     PROGRAM 1 0 PHASE-REASON[-MORE]-WHO
 *
 * PE 0 kills PE 1 in round 4. PHASE says when the reason occurs:
 *
 *      away    when the substitute begins its replay: the loss is known by then
 *      replay  late in its replay
 *      after   one round after the substitute has caught up
 *      next    after the next checkpoint
 *
 * REASON: overflow  more than the log holds, by PE WHO
 *         unlogged  a call that is not logged, by PE WHO
 *         unlike    a barrier in which one PE makes a different call
 *         split     no reason: a collective that is logged like all others
 *
 * MORE:   node      PE 1 is lost with its node
 *         twice     after the reason, PE 0 kills PE 2
 *
 * A PE other than PE 1 prints `again` if it repeats a round.
 */
#include "local_rollback.h"

enum { LARGE = 1 << 20, DEATH = 4 };

static long box, total, process, part, whole, shared;
static shmem_team_t pair;
static char large[LARGE], filled[LARGE];

static int has(const struct own *own, const char *word) {
    return strstr(own->what, word) != NULL;
}

static int is_due(const struct own *own) {
    int wait = has(own, "after") ? 1 : has(own, "next") ? 3 : 0;
    return strchr(own->what, '-') && round_ == DEATH + wait;
}

static void by_one(struct own *own) {
    if (has(own, "overflow"))
        shmem_putmem(large, filled, LARGE, (own->me + 1) % own->n);
    if (has(own, "unlogged")) {
        int *lost = NULL;
        size_t count;
        shmemx_ft_failed(SHMEM_TEAM_WORLD, &lost, &count);
        free(lost);
    }
}

static void by_all(struct own *own) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    if (has(own, "split")) {
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, own->n, NULL, 0, &team);
        shmem_team_sync(team);
        shmem_team_destroy(team);
    } else if (has(own, "unlike") && own->me == 0)
        shmem_sync_all();
    else
        shmem_barrier_all();
}

static int is_there(const char *name) {
    return access(name, F_OK) == 0;
}

static void leave(const char *name) {
    FILE *file = fopen(name, "w");
    CHECK(file);
    fclose(file);
}

/* PE 0 kills the original of PE 1, which waits for its death. */
static void lose(struct own *own) {
    int replayed = has(own, "replay"), begins = replayed || has(own, "away");
    process = has(own, "node") ? getppid() : getpid();
    shmem_barrier_all();
    while (own->me == 1 && own->dies)
        pause();
    if (own->me == 1 && replayed)
        leave("began");
    while (own->me != 0 && replayed && !is_there("go"))
        usleep(100);
    if (own->me != 0 || own->at)
        return;
    own->at = 1;
    pid_t victim = (pid_t)shmem_long_g(&process, 1);
    kill(victim, SIGKILL);
    while (!kill(victim, 0) || (begins && !is_there("began")))
        usleep(100);
    leave("go");
}

/* PE 0 kills the original of PE 2, which waits for its death. */
static void lose_another(struct own *own) {
    process = getpid();
    shmem_barrier_all();
    while (own->me == 2 && own->dies)
        pause();
    if (own->me != 0 || own->at == 2)
        return;
    own->at = 2;
    kill((pid_t)shmem_long_g(&process, 2), SIGKILL);
}

/* What no log holds after the reason: a collective of all PEs, and one of a team. */
static void add_up(struct own *own) {
    part = value % 1000;
    CALL(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &whole, &part, 1));
    if (pair != SHMEM_TEAM_INVALID)
        CALL(shmem_long_max_reduce(pair, &shared, &part, 1));
    value += whole + (pair == SHMEM_TEAM_INVALID ? 0 : shared);
    CALL(shmem_barrier_all());
}

static void turn(struct own *own) {
    if (own->me != 1 && ++own->calls > ROUNDS)
        printf("again\n");
    if (own->me == 1 && !own->dies && has(own, "away"))
        leave("began");
    if (round_ == 0)
        CALL(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &pair));
    CALL(shmem_long_p(&box, value, (own->me + 1) % own->n));
    CALL(shmem_barrier_all());
    value = value * 7 + box;
    CALL(shmem_long_atomic_add(&total, value, 0));
    CALL(shmem_barrier_all());
    if (round_ == DEATH && strchr(own->what, '-'))
        lose(own);
    if (is_due(own) && own->me == own->what[strlen(own->what) - 1] - '0')
        by_one(own);
    if (is_due(own))
        by_all(own);
    add_up(own);
    if (is_due(own) && has(own, "twice"))
        lose_another(own);
    value += CALL(shmem_long_g(&total, 0));
    CALL(shmem_barrier_all());
}
