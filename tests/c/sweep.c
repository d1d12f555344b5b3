/*
 * sweep: PEs die one after another in the midst of a collective, each a little later, and all
 * survivors get the same result.
 *
 *     sweep SEED LATEST     a thread of the victim kills it up to LATEST nanoseconds from the start
 *
 * All or none of the victim's contribution is included. Survivors are always included, PEs lost
 * before never.
 */
#include "test.h"

#include "kill_later.h"

#include <pthread.h>

enum { MOST = 64, WORDS = 700, OLD = -1 };
enum { OUT, IN, UNKNOWN }; /* is the victim's part included, as far as one PE can see? */
enum { BARRIER, BROADCAST, COLLECT, FCOLLECT, ALLTOALL, ALLTOALLS, SUM, SCAN, KINDS };

static long source[MOST * WORDS], dest[MOST * WORDS], came[MOST];
static int me, n, lost_before[MOST], victim, root;

static long value(int pe, int round, int word) {
    return 1 + pe + 100L * round + 100000L * word;
}

/* Returns IN if a row of words is new, of `pe`, or OUT if it is all old. */
static int row(const long *words, int count, int stride, int pe, int round, int first) {
    int is_new = words[0] != OLD;
    for (int i = 0; i < count; i++)
        CHECK(words[i * stride] == (is_new ? value(pe, round, first + i) : OLD));
    return is_new ? IN : OUT;
}

/* Rows of all PEs: survivors are in, the lost are not, the victim is or is not. */
static int rows(int count, int stride, int step, int round, int first) {
    int in = UNKNOWN;
    for (int pe = 0; pe < n; pe++) {
        int is_in = row(dest + pe * step, count, stride, pe, round, first);
        if (pe == victim)
            in = is_in;
        else
            CHECK(is_in == (lost_before[pe] ? OUT : IN));
    }
    return in;
}

static int collected(int round) {
    int at = 0, in = OUT;
    for (int pe = 0; pe < n; pe++) {
        int count = WORDS - pe;
        if (lost_before[pe])
            continue;
        if (pe == victim && dest[at] != value(pe, round, 0))
            continue;
        if (pe == victim)
            in = IN;
        CHECK(row(dest + at, count, 1, pe, round, 0) == IN);
        at += count;
    }
    CHECK(dest[at] == OLD);
    return in;
}

/* Returns IN, OUT or UNKNOWN for sums over the PEs up to `last`. */
static int summed(int round, int last) {
    int in = UNKNOWN;
    for (int i = 0; i < WORDS; i++) {
        long sum = 0, with;
        for (int pe = 0; pe <= last; pe++)
            if (!lost_before[pe] && pe != victim)
                sum += value(pe, round, i);
        with = sum + (victim <= last ? value(victim, round, i) : 0);
        CHECK(dest[i] == sum || dest[i] == with);
        if (victim <= last) {
            int is_in = dest[i] == with ? IN : OUT;
            CHECK(i == 0 || is_in == in);
            in = is_in;
        }
    }
    return in;
}

static int act(int kind, int round, int *in) {
    int status = 0;
    shmem_team_t world = SHMEM_TEAM_WORLD;
    switch (kind) {
    case BARRIER:
        for (int pe = 0; pe < n; pe++)
            shmem_long_p(&came[me], round, pe);
        shmem_barrier_all();
        for (int pe = 0; pe < n; pe++)
            CHECK(came[pe] == round || lost_before[pe] || pe == victim);
        *in = UNKNOWN;
        return -1; /* it has no status */
    case BROADCAST:
        status = shmem_long_broadcast(world, dest, source, WORDS, root);
        *in = row(dest, WORDS, 1, root, round, 0);
        CHECK(root == victim || *in == (lost_before[root] ? OUT : IN));
        *in = root == victim ? *in : UNKNOWN;
        return status;
    case COLLECT:
        status = shmem_long_collect(world, dest, source, (size_t)(WORDS - me));
        *in = collected(round);
        return status;
    case FCOLLECT:
        status = shmem_long_fcollect(world, dest, source, WORDS);
        *in = rows(WORDS, 1, WORDS, round, 0);
        return status;
    case ALLTOALL:
        status = shmem_long_alltoall(world, dest, source, 10);
        *in = rows(10, 1, 10, round, me * 10);
        return status;
    case ALLTOALLS: /* every second word here, every word there */
        status = shmem_long_alltoalls(world, dest, source, 2, 1, 10);
        *in = rows(10, 2, 20, round, me * 10);
        return status;
    case SUM:
        status = shmem_long_sum_reduce(world, dest, source, WORDS);
        *in = summed(round, n - 1);
        return status;
    default:
        status = shmem_long_sum_inscan(world, dest, source, WORDS);
        *in = summed(round, me);
        return status;
    }
}

/* All survivors contributed 1 to at least one question: they get the same answer. */
static int agreed(int questions) {
    int value = questions;
    shmemx_ft_agree(SHMEM_TEAM_WORLD, &value);
    return value;
}

/* Waits until the loss is reported to all alike, and acknowledges it. */
static void acknowledge(void) {
    int *pes = NULL, *status = NULL;
    size_t count = 0;
    CHECK(shmem_checkpoint_all() == SHMEM_FT_FAILURE);
    shmem_query_fault(&pes, &status, &count);
    CHECK(count == 1 && pes[0] == victim && status[0] != 0);
    lost_before[victim] = 1;
    CHECK(shmemx_ft_faulted());
    int value = me;
    CHECK(shmemx_ft_agree(SHMEM_TEAM_WORLD, &value) == SHMEM_FT_FAILURE); /* no PE has yet */
    shmem_restart_pes(pes, count);
    CHECK(!shmemx_ft_faulted());
    free(pes), free(status);
}

int main(int argc, char **argv) {
    shmem_init();
    me = shmem_my_pe(), n = shmem_n_pes();
    unsigned seed = (unsigned)atoi(argv[1]);
    long latest = atol(argv[2]);
    int order[MOST], ins = 0;
    (void)argc;
    for (int i = 0; i < n; i++)
        order[i] = (i * (int)(seed % 2 ? 1 : n - 1) + (int)seed) % n;
    for (int round = 1; round < n; round++) {
        int kind = (int)(seed + (unsigned)round) % KINDS, in = UNKNOWN;
        victim = order[round - 1];
        root = round % 3 ? victim : order[n - 1];
        for (int i = 0; i < MOST * WORDS; i++)
            source[i] = i < n * WORDS ? value(me, round, i) : 0, dest[i] = OLD;
        shmem_barrier_all();
        long delay = latest * (long)((seed * 7919u + (unsigned)round * 104729u) % 1000u) / 1000;
        pthread_t thread;
        if (me == victim)
            CHECK(pthread_create(&thread, NULL, kill_later, &delay) == 0);
        int status = act(kind, round, &in);
        if (me == victim)
            for (;;)
                pause();
        CHECK(status < 0 || round == 1 || status != 0); /* a PE was lost before */
        CHECK(agreed((in != OUT) | (in != IN) << 1) != 0);
        CHECK(agreed((status != 0) | (status == 0) << 1) != 0);
        ins += in == IN;
        acknowledge();
    }
    printf("PE %d is left, with %d of %d in\n", me, ins, n - 1);
    shmem_finalize();
    return 0;
}
