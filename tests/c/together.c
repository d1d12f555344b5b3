/*
 * together: collectives over the world and its teams, compared with their expected results; a
 * checkpoint each step, until there is a file `stop` in its folder, or up to a given step.
 *
 * Sums are of numbers so different in size that every order of additions gives different bits; they
 * are compared with the one tree that the library promises (ARCHITECTURE.md, life of a collective).
 * PE 0 prints `ready` after the third checkpoint, `back` after a recovery, the bits of all sums of
 * the first step, and `stopped` at the end. The PE in the arguments kills itself, or its node, so
 * many microseconds after the third checkpoint, at any point.
 *
 * together [LAST-STEP [PE MICROSECONDS [node]]]
 */
#include "test.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST = 33000, PES = 64, BLOCK = 96 };

static long step;
static int stop;
static uint64_t bits;
static double source[MOST], dest[MOST], work[MOST];
static float source_f[MOST], dest_f[MOST];
static long row[PES * BLOCK], column[PES * BLOCK];
static long pSync[SHMEM_REDUCE_SYNC_SIZE];
static shmem_team_t teams[5];

static int me, n_pes;

static double number(int pe, int at) {
    uint64_t random = mixed(mixed(mixed(1, (uint64_t)step), (uint64_t)pe), (uint64_t)at);
    random = mixed(random, 7);
    uint64_t exponent = 1023 - 12 + (random >> 52) % 24;
    uint64_t whole = (random & 0x800fffffffffffffu) | exponent << 52;
    double value;
    memcpy(&value, &whole, 8);
    return value;
}

/* Sums the pairs, then the balanced tree over pairs and single PEs. */
#define TREE(name, type) \
    static type name(type *of, int n) { \
        int leaves = 1; \
        while (2 * leaves <= n) \
            leaves *= 2; \
        int pairs = n - leaves; \
        for (int i = 0; i < leaves; i++) \
            of[i] = i < pairs ? of[2 * i] + of[2 * i + 1] : of[i + pairs]; \
        for (; leaves > 1; leaves /= 2) \
            for (int i = 0; i < leaves / 2; i++) \
                of[i] = of[2 * i] + of[2 * i + 1]; \
        return of[0]; \
    }
TREE(tree, double)
TREE(tree_f, float)

static double sum_of(const int *pes, int n, int at) {
    double of[PES];
    for (int i = 0; i < n; i++)
        of[i] = number(pes[i], at);
    return tree(of, n);
}

static void note(const void *from, size_t bytes) {
    const unsigned char *byte = from;
    for (size_t i = 0; step == 1 && i < bytes; i++)
        bits = mixed(bits, byte[i]);
}

/* All agree whether the call reported a loss: then there is nothing to check. */
static int sums(shmem_team_t team, const int *pes, int n, int count, int in_place) {
    for (int i = 0; i < count; i++)
        (in_place ? dest : source)[i] = number(me, i);
    if (shmem_double_sum_reduce(team, dest, in_place ? dest : source, (size_t)count))
        return 1;
    for (int i = 0; i < count; i++) {
        double sum = sum_of(pes, n, i);
        CHECK(memcmp(&dest[i], &sum, 8) == 0);
    }
    note(dest, 8 * (size_t)count);
    return 0;
}

static int sums_of_floats(shmem_team_t team, const int *pes, int n, int count) {
    for (int i = 0; i < count; i++)
        source_f[i] = (float)number(me, i);
    if (shmem_float_sum_reduce(team, dest_f, source_f, (size_t)count))
        return 1;
    for (int i = 0; i < count; i++) {
        float of[PES];
        for (int k = 0; k < n; k++)
            of[k] = (float)number(pes[k], i);
        float sum = tree_f(of, n);
        CHECK(memcmp(&dest_f[i], &sum, 4) == 0);
    }
    note(dest_f, 4 * (size_t)count);
    return 0;
}

static int blocks(shmem_team_t team, const int *pes, int n, int count) {
    int index = shmem_team_my_pe(team);
    for (int i = 0; i < n * count; i++)
        row[i] = step * 1000003 + me * 10007 + i;
    if (shmem_long_alltoall(team, column, row, (size_t)count))
        return 1;
    for (int from = 0; from < n; from++)
        for (int i = 0; i < count; i++)
            CHECK(column[from * count + i] ==
                  step * 1000003 + pes[from] * 10007 + index * count + i);
    return 0;
}

static int from_one(shmem_team_t team, const int *pes, int n, int count) {
    int root = (int)(step % n);
    for (int i = 0; i < count; i++)
        source[i] = number(me, i), dest[i] = 0;
    if (shmem_team_sync(team) || shmem_double_broadcast(team, dest, source, (size_t)count, root))
        return 1;
    for (int i = 0; i < count; i++)
        CHECK(dest[i] == number(pes[root], i));
    return 0;
}

static int from_all(shmem_team_t team, const int *pes, int n, int count) {
    int index = shmem_team_my_pe(team), at = 0;
    for (int i = 0; i < count + n; i++)
        source[i] = number(me, i);
    if (shmem_double_fcollect(team, dest, source, (size_t)count))
        return 1;
    for (int from = 0; from < n; from++)
        for (int i = 0; i < count; i++)
            CHECK(dest[from * count + i] == number(pes[from], i));
    if (shmem_team_sync(team) || shmem_double_collect(team, dest, source, (size_t)(count + index)))
        return 1;
    for (int from = 0; from < n; from++)
        for (int i = 0; i < count + from; i++)
            CHECK(dest[at++] == number(pes[from], i));
    return shmem_team_sync(team);
}

static int over_team(shmem_team_t team) {
    int n = shmem_team_n_pes(team), pes[PES];
    for (int i = 0; i < n; i++)
        pes[i] = shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD);
    static const int counts[] = {1, 5, 500, 700, MOST}, blocks_of[] = {1, 3, 64, BLOCK};
    for (int i = 0; i < 5; i++)
        if (sums(team, pes, n, counts[i], 0) || sums(team, pes, n, counts[i], 1) ||
            sums_of_floats(team, pes, n, counts[i]) || from_one(team, pes, n, counts[i]))
            return 1;
    for (int i = 0; i < 4; i++)
        if (blocks(team, pes, n, blocks_of[i]))
            return 1;
    return from_all(team, pes, n, 3) || from_all(team, pes, n, 400);
}

static int over_active_set(void) {
    int pes[PES];
    for (int i = 0; i < n_pes; i++)
        pes[i] = i;
    for (int count = 1; count <= 2500; count += 2499) {
        for (int i = 0; i < count; i++)
            source[i] = number(me, i);
        shmem_barrier_all();
        shmem_double_sum_to_all(dest, source, count, 0, 0, n_pes, work, pSync);
        if (shmemx_ft_faulted())
            return 1;
        for (int i = 0; i < count; i++) {
            double sum = sum_of(pes, n_pes, i);
            CHECK(memcmp(&dest[i], &sum, 8) == 0);
        }
    }
    return 0;
}

static void all(void) {
    for (int i = 0; i < 5; i++)
        if (teams[i] != SHMEM_TEAM_INVALID && over_team(teams[i]))
            return;
    over_active_set();
}

static pid_t victim;

static void die(int signal) {
    (void)signal;
    kill(victim, SIGKILL);
}

static void die_in(long microseconds) {
    struct itimerval in = {.it_value = {.tv_usec = microseconds}};
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &in, NULL);
}

int main(int argc, char **argv) {
    long last = argc > 1 ? atol(argv[1]) : 0;
    int dies = argc > 3 ? atoi(argv[2]) : -1;
    victim = argc > 4 ? getppid() : getpid();
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    int original = shmem_ft_algo_init();
    if (original) {
        teams[0] = SHMEM_TEAM_WORLD;
        shmem_team_split_strided(teams[0], n_pes - 1, -1, n_pes, NULL, 0, &teams[1]);
        shmem_team_split_strided(teams[0], 0, 2, (n_pes + 1) / 2, NULL, 0, &teams[2]);
        shmem_team_split_2d(teams[0], 3, NULL, 0, &teams[3], NULL, 0, &teams[4]);
    }
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            if (me == 0)
                printf("back\n");
            continue;
        }
        if (stop || (last && step == last))
            break;
        step++;
        if (step == 3 && me == 0)
            printf("ready\n");
        if (step == 3 && original && me == dies)
            die_in(atol(argv[3]));
        all();
        int asked = me == 0 && access("stop", F_OK) == 0;
        for (int pe = 0; asked && pe < n_pes; pe++)
            shmem_int_p(&stop, 1, pe);
        shmem_barrier_all();
    }
    if (me == 0) {
        unlink("stop");
        printf("bits %016lx\nstopped\n", (unsigned long)bits);
    }
    shmem_finalize();
    return 0;
}
