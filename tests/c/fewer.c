/*
 * fewer: behaviour of calls in shrink mode, one aspect at a time; see tests/process.
 *
 *     fewer waits | checkpoints | handlers | exit STATUS | all | hold | one-copy | one-node
 *     fewer nodes | shadows | one-node-left PES_OF_A_NODE
 *     fewer lock home | holder | tested | cleared
 */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { LOST = 1, MOST = 64 };

static long word, locks[MOST], pair[3] = {1, 2, 3};
static int told[MOST], tellings;
static pthread_t teller;

static void die_if(int pe) {
    if (shmem_my_pe() == pe)
        raise(SIGKILL);
}

/* Returns a lock with the PE as its home: homes follow the order of the locks in memory. */
static long *lock_of(int pe) {
    int i = 0;
    while ((int)((uintptr_t)&locks[i] / sizeof(long) % (size_t)shmem_n_pes()) != pe)
        i++;
    return &locks[i];
}

static void waits(void) {
    die_if(LOST);
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1); /* which never comes */
    CHECK(word == 0 && shmemx_ft_faulted());
    CHECK(shmem_long_test(&word, SHMEM_CMP_EQ, 1));
    shmem_restart_pes(NULL, 0);
    CHECK(!shmemx_ft_faulted() && !shmem_long_test(&word, SHMEM_CMP_EQ, 1));
    int next = shmem_my_pe() == 0 ? 2 : 0;
    shmem_barrier_all();
    shmem_long_p(&word, 2, next);
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, 2); /* put by a live PE */
    CHECK(word == 2);
    printf("PE %d waited\n", shmem_my_pe());
}

/* A loss fails one checkpoint call, the same one on all PEs. */
static void checkpoints(void) {
    int failures = 0;
    for (int i = 0; i < 6; i++) {
        int failed = shmem_checkpoint_all() != SHMEM_FT_SUCCESS, *pes = NULL, *status = NULL;
        int same = failed | !failed << 1;
        size_t n = 0;
        shmemx_ft_agree(SHMEM_TEAM_WORLD, &same);
        CHECK(same != 0);
        failures += failed;
        shmem_query_fault(&pes, &status, &n);
        CHECK(n > 0 || !failed);
        if (failed)
            shmem_restart_pes(pes, n);
        free(pes), free(status);
    }
    CHECK(failures == 1);
    printf("PE %d has seen the failure\n", shmem_my_pe());
}

static void handler(int pe, int status, void *arg) {
    CHECK(arg == &word && status != 0);
    CHECK(pthread_equal(pthread_self(), teller));
    told[tellings++] = pe;
}

static void handlers(void) {
    teller = pthread_self();
    shmemx_ft_on_fault(handler, &word);
    for (int lost = LOST; lost < 3; lost++) {
        die_if(lost);
        shmem_barrier_all();
        long got = 7;
        CHECK(shmemx_ft_get(&got, &word, sizeof got, lost) == SHMEM_FT_FAILURE);
        CHECK(got == 0 && tellings >= lost);
        long many[3] = {7, 7, 7};
        CHECK(shmemx_ft_long_get(many, locks, 1, lost) == SHMEM_FT_FAILURE);
        CHECK(shmemx_ft_long_iget(many + 1, locks, 1, 2, 2, lost) == SHMEM_FT_FAILURE);
        CHECK(many[0] == 0 && many[1] == 0 && many[2] == 0);
    }
    long got[2];
    CHECK(shmemx_ft_long_iget(got, pair, 1, 2, 2, 0) == SHMEM_FT_SUCCESS);
    CHECK(got[0] == 1 && got[1] == 3);
    CHECK(tellings == 2 && shmemx_ft_get(&word, &word, sizeof word, 0) == SHMEM_FT_SUCCESS);
    printf("PE %d learned of %d %d\n", shmem_my_pe(), told[0], told[1]);
}

static void lock(const char *what) {
    if (!strcmp(what, "home")) {
        die_if(LOST);
        shmem_barrier_all();
        shmem_set_lock(lock_of(LOST));
        CHECK(!"the lock has no home");
    }
    long *own = lock_of(0);
    if (!strcmp(what, "cleared")) { /* a PE that passes it on and then dies holds up no other */
        for (int turn = 0; turn < 3; turn++) {
            shmem_set_lock(own);
            shmem_clear_lock(own);
        }
        shmem_barrier_all();
        die_if(LOST);
        shmem_set_lock(own);
        shmem_clear_lock(own);
        return;
    }
    if (shmem_my_pe() == LOST)
        shmem_set_lock(own);
    shmem_barrier_all();
    if (shmem_my_pe() == LOST)
        raise(SIGKILL); /* whether or not the others wait for it yet */
    if (!strcmp(what, "tested"))
        while (shmem_test_lock(own))
            ;
    else
        shmem_set_lock(own);
    CHECK(!"who died holds the lock");
}

/* Rounds in each of which a node is killed from outside. */
static void nodes(int of_a_node) {
    shmem_team_t team = SHMEM_TEAM_WORLD;
    for (int round = 0; round < 3; round++) {
        if (shmem_team_my_pe(team) == 0)
            printf("round %d begins\n", round);
        int members = shmem_team_n_pes(team);
        while (shmem_team_sync(team) == 0)
            ;
        shmem_team_t living = SHMEM_TEAM_INVALID;
        do { /* the PEs of a node may be reported lost one by one */
            CHECK(shmemx_ft_shrink(team, &living) == SHMEM_FT_SUCCESS);
            team = living;
        } while (shmem_team_n_pes(team) > members - of_a_node);
        CHECK(shmem_team_n_pes(team) == members - of_a_node);
    }
    if (shmem_team_my_pe(team) == 0)
        printf("%d PEs are left after 3 rounds\n", shmem_team_n_pes(team));
}

/* A PE's shadow is on another node, and every PE is the shadow of one. */
static void shadows(int of_a_node) {
    int n = shmem_n_pes(), me = shmem_my_pe(), times[MOST] = {0};
    for (int pe = 0; pe < n; pe++) {
        int shadow = shmemx_ft_shadow(SHMEM_TEAM_WORLD, pe);
        CHECK(shadow >= 0 && shadow < n && shadow / of_a_node != pe / of_a_node);
        CHECK(times[shadow]++ == 0);
    }
    int shadow = shmemx_ft_shadow(SHMEM_TEAM_WORLD, me);
    long value = 7 + me;
    CHECK(shmemx_ft_put2(&locks[me], &value, sizeof value, me, shadow) == SHMEM_FT_SUCCESS);
    shmem_barrier_all();
    CHECK(locks[me] == value && shmem_long_g(&locks[me], shadow) == value);
    if (me == 0)
        printf("shadows: as it should be\n");
}

/* With one node left, any PE may be a shadow. */
static void one_node_left(int of_a_node) {
    int n = shmem_n_pes(), me = shmem_my_pe();
    if (me >= of_a_node)
        raise(SIGKILL);
    size_t lost = 0;
    for (int known = 0; !known; shmemx_ft_agree(SHMEM_TEAM_WORLD, &known)) {
        int *pes = NULL;
        CHECK(shmemx_ft_failed(SHMEM_TEAM_WORLD, &pes, &lost) == SHMEM_FT_SUCCESS);
        free(pes);
        known = (int)lost == n - of_a_node;
    }
    shmem_team_t living = SHMEM_TEAM_INVALID;
    CHECK(shmemx_ft_shrink(SHMEM_TEAM_WORLD, &living) == SHMEM_FT_SUCCESS);
    int shadow = shmemx_ft_shadow(living, me);
    CHECK(shadow == (me + 1) % of_a_node);
    CHECK(shmemx_ft_put2(&word, pair, sizeof word, me, shadow) == SHMEM_FT_SUCCESS);
    CHECK(shmemx_ft_put2(&word, pair, sizeof word, me, n - 1) == SHMEM_FT_FAILURE);
    if (me == 0)
        printf("one-node-left: as it should be\n");
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "waits"))
        waits();
    else if (!strcmp(what, "checkpoints"))
        checkpoints();
    else if (!strcmp(what, "handlers"))
        handlers();
    else if (!strcmp(what, "lock"))
        lock(argv[2]);
    else if (!strcmp(what, "nodes"))
        nodes(atoi(argv[2]));
    else if (!strcmp(what, "shadows"))
        shadows(atoi(argv[2]));
    else if (!strcmp(what, "one-node-left"))
        one_node_left(atoi(argv[2]));
    else if (!strcmp(what, "one-node"))
        shmemx_ft_put2(&word, pair, sizeof word, 0, 1);
    else if (!strcmp(what, "one-copy"))
        shmemx_ft_put2(&word, pair, sizeof word, 1, 1);
    else if (!strcmp(what, "all"))
        raise(SIGKILL);
    else
        die_if(LOST);
    if (!strcmp(what, "hold")) {
        shmem_barrier_all();
        if (shmem_my_pe() == 0)
            printf("PE %d is lost, and we wait\n", LOST);
        for (;;)
            pause();
    }
    int status = !strcmp(what, "exit") && shmem_my_pe() == 2 ? atoi(argv[2]) : 0;
    shmem_finalize();
    return status;
}
