/*
 * degraded: a lost PE's last checkpoint is read from parity while no substitute has taken its
 * place, and the survivors protect each other anew.
 *
 *     degraded read LOST ..        these PEs die after the second of two checkpoints
 *     degraded rounds LOST ..      one after another, each after a checkpoint of the survivors
 *     degraded point [LOST [N]]    one PE, or N, are killed from outside at a point of the third
 *                                  checkpoint; LOST, if it is a PE, dies before it
 *     degraded fallen LOST ..      more than the parity covers
 *     degraded last LOST ..        too few are left to protect each other
 *     degraded interval LOST ..    one after another, while calls pass without a checkpoint
 *     degraded rate MIB            reads a whole PE and prints the bandwidth
 */
#include "test.h"

#include <signal.h>
#include <time.h>

enum { STATICS = 700 };

static long still[STATICS];
static long *cells, *outside;
static size_t count = 300001; /* not whole tiles */

static long value(int pe, int round, size_t i) {
    return (long)mixed(mixed((uint64_t)pe + 1, (uint64_t)round + 1), i);
}

static void fill(int round) {
    for (size_t i = 0; i < count; i++)
        cells[i] = value(shmem_my_pe(), round, i);
    for (int i = 0; i < STATICS; i++)
        still[i] = value(shmem_my_pe(), round, (size_t)i + 7);
}

/* A PE's whole checkpoint is of that round, read at once and in odd pieces. */
static void compare(int pe, int round, uint64_t wanted) {
    uint64_t number = 0;
    long *got = malloc(count * sizeof *got), some[STATICS];
    CHECK(shmemx_ft_get_checkpoint(got, cells, count * sizeof *got, pe, &number) == 0);
    CHECK(number == wanted);
    for (size_t i = 0; i < count; i++)
        CHECK(got[i] == value(pe, round, i));
    for (size_t at = 0; at + 5 < count; at += 8191 * 3) {
        CHECK(shmemx_ft_get_checkpoint(some, cells + at, 5 * sizeof *some, pe, &number) == 0);
        CHECK(!memcmp(some, got + at, 5 * sizeof *some) && number == wanted);
    }
    CHECK(shmemx_ft_get_checkpoint(some, still, sizeof some, pe, &number) == 0);
    for (int i = 0; i < STATICS; i++)
        CHECK(some[i] == value(pe, round, (size_t)i + 7));
    CHECK(shmemx_ft_get_checkpoint(some, outside, sizeof *some, pe, &number) == 1);
    CHECK(shmemx_ft_get_checkpoint(some, cells, 0, pe, &number) == 0 && number == wanted);
    free(got);
}

/* A PE that was lost before the last checkpoint is not in it. */
static void compare_none(int pe, uint64_t wanted) {
    uint64_t number = 0;
    long some[2];
    CHECK(shmemx_ft_get_checkpoint(some, cells, sizeof some, pe, &number) == SHMEM_FT_FAILURE);
    CHECK(number == wanted);
}

static int is_lost(int pe) {
    int *pes = NULL, found = 0;
    size_t n = 0;
    CHECK(shmemx_ft_failed(SHMEM_TEAM_WORLD, &pes, &n) == SHMEM_FT_SUCCESS);
    for (size_t i = 0; i < n; i++)
        found |= pes[i] == pe;
    free(pes);
    return found;
}

/* The survivors make a checkpoint and can be read from it; lost PEs cannot. */
static void save(int round) {
    uint64_t wanted = shmemx_ft_checkpoint_number() + 1;
    fill(round);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    CHECK(shmemx_ft_checkpoint_number() == wanted);
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        if (is_lost(pe))
            compare_none(pe, wanted);
        else
            compare(pe, round, wanted);
    shmem_barrier_all(); /* no PE dies while it is being read */
}

/* Too few survive to protect each other: the last checkpoint stays, and the call fails once. */
static void refused(void) {
    uint64_t last = shmemx_ft_checkpoint_number();
    CHECK(shmem_checkpoint_all() == SHMEM_FT_FAILURE);
    CHECK(strstr(shmemx_ft_last_error(), "a group of 1 PE cannot hold 1 parity"));
    shmem_restart_pes(NULL, 0);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS); /* skipped */
    CHECK(shmemx_ft_checkpoint_number() == last);
}

/* Waits until all PEs know of this many losses. */
static void await(int losses) {
    int *pes = NULL;
    size_t n = 0;
    for (int known = 0; !known;) {
        CHECK(shmemx_ft_failed(SHMEM_TEAM_WORLD, &pes, &n) == 0);
        free(pes);
        known = (int)n == losses;
        shmemx_ft_agree(SHMEM_TEAM_WORLD, &known);
    }
}

/* Waits until all PEs know of the losses, and acknowledges them. */
static void acknowledge(int losses) {
    await(losses);
    int status = shmem_checkpoint_all();
    CHECK(status == SHMEM_FT_FAILURE);
    shmem_restart_pes(NULL, 0);
}

/* PEs die one after another; each is read from the last checkpoint that it was in. */
static void rounds(int losses, char **lost) {
    for (int i = 0; i < losses; i++) {
        if (atoi(lost[i]) == shmem_my_pe())
            raise(SIGKILL);
        acknowledge(i + 1);
        uint64_t number = shmemx_ft_checkpoint_number();
        for (int pe = 0; pe < shmem_n_pes(); pe++)
            if (is_lost(pe) && pe != atoi(lost[i]))
                compare_none(pe, number);
            else
                compare(pe, i + 1, number);
        save(i + 2);
    }
}

/* Calls pass until an hour is over, but for the first one after a loss. */
static void interval(int losses, char **lost) {
    for (int i = 0; i < losses; i++) {
        uint64_t number = shmemx_ft_checkpoint_number();
        CHECK(number == (uint64_t)i + 1);
        for (int n = 0; n < 20; n++) {
            fill(i + 2 + n);
            CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
            CHECK(shmemx_ft_checkpoint_number() == number && !shmemx_ft_need_checkpoint());
        }
        if (atoi(lost[i]) == shmem_my_pe())
            raise(SIGKILL);
        acknowledge(i + 1);
        compare(atoi(lost[i]), i + 1, number);
        shmem_barrier_all();
        CHECK(i % 2 || shmemx_ft_need_checkpoint());
        save(i + 2);
    }
}

/* PEs are killed from outside during or after a checkpoint; `before` dies before it. */
static void point(int before, int killed) {
    int me = shmem_my_pe(), losses = killed + (before >= 0);
    if (me == before)
        raise(SIGKILL);
    if (before >= 0)
        acknowledge(1);
    fill(2);
    int status = shmem_checkpoint_all();
    int saved = shmemx_ft_checkpoint_number() == 3, all = saved | !saved << 1;
    shmemx_ft_agree(SHMEM_TEAM_WORLD, &all);
    CHECK(all != 0 && (saved || status == SHMEM_FT_FAILURE));
    if (status == SHMEM_FT_SUCCESS)
        acknowledge(losses);
    else {
        await(losses);
        shmem_restart_pes(NULL, 0);
    }
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        if (saved && pe == before)
            compare_none(pe, 3);
        else
            compare(pe, saved ? 2 : 1, saved ? 3 : 2);
    printf("PE %d has read checkpoint %d\n", me, saved ? 3 : 2);
    shmem_barrier_all();
    save(3);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void rate(int lost) {
    size_t bytes = count * sizeof *cells;
    char *got = malloc(bytes);
    uint64_t number = 0;
    double best = 1e9;
    memset(got, 1, bytes);
    shmem_barrier_all();
    for (int turn = 0; turn < 5 && shmem_my_pe() == 0; turn++) {
        double begun = seconds();
        CHECK(shmemx_ft_get_checkpoint(got, cells, bytes, lost, &number) == 0);
        double took = seconds() - begun;
        best = took < best ? took : best;
    }
    if (shmem_my_pe() == 0)
        printf("degraded read: %zu bytes, %.0f MB/s\n", bytes, 1e-6 * (double)bytes / best);
    shmem_barrier_all();
    free(got);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    const char *what = argc > 1 ? argv[1] : "";
    int me = shmem_my_pe(), losses = !strcmp(what, "rate") ? 1 : argc - 2, mine = 0;
    if (!strcmp(what, "rate"))
        count = (size_t)atol(argv[2]) * (1 << 20) / sizeof *cells;
    cells = shmem_malloc(count * sizeof *cells);
    outside = shmem_malloc(4096);
    CHECK(shmemx_ft_exclude(outside, 4096) == 0);
    uint64_t number = 5;
    CHECK(shmemx_ft_get_checkpoint(&number, cells, 8, 0, &number) == 1 && number == 0);
    int is_interval = !strcmp(what, "interval");
    for (int round = is_interval; round < 2; round++) {
        fill(round);
        CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    }
    compare((me + 1) % shmem_n_pes(), 1, 2 - (uint64_t)is_interval); /* of a survivor */
    shmem_barrier_all();
    if (!strcmp(what, "point")) {
        point(argc > 2 ? atoi(argv[2]) : -1, argc > 3 ? atoi(argv[3]) : 1);
        shmem_finalize();
        return 0;
    }
    if (!strcmp(what, "rounds") || is_interval) {
        (is_interval ? interval : rounds)(argc - 2, argv + 2);
        printf("%s: as it should be\n", what);
        shmem_finalize();
        return 0;
    }
    fill(2);
    for (int i = 2; i < argc && strcmp(what, "rate"); i++)
        mine |= atoi(argv[i]) == me;
    if (!strcmp(what, "rate"))
        mine = me == 1;
    if (mine)
        raise(SIGKILL);
    acknowledge(losses);
    if (!strcmp(what, "rate"))
        rate(1);
    else if (!strcmp(what, "fallen")) {
        CHECK(shmemx_ft_get_checkpoint(&number, cells, 8, atoi(argv[2]), &number) == 1);
        compare(me, 1, 2);
    } else
        for (int pe = 0; pe < shmem_n_pes(); pe++)
            compare(pe, 1, 2);
    printf("%s: as it should be\n", what);
    shmem_barrier_all();
    if (!strcmp(what, "last"))
        refused();
    else if (strcmp(what, "rate"))
        save(2);
    shmem_finalize();
    return 0;
}
