/*
 * local_rollback_pairs: two of three PEs are lost in one interval, case after case, and roll back
 * locally.
 *
 *     PROGRAM HOW A B FROM TO [STEP]
 *
 * Each case has an interval of its own. Case N, out of FROM, FROM + STEP, .. below TO, concerns the
 * calls I = N / CALLS + 1 and J = N % CALLS + 1 of that interval. Every PE's result depends on all
 * the data it receives; PE 0 prints the sum.
 *
 * HOW: none    no PE dies
 *      each    A dies before its call I, and B before its call J
 *      both    A kills B, wherever that is, and itself before its call I
 *      replay  A dies before its call I; its substitute kills B before its call J
 *      chain   like replay, and the substitute is killed a moment later, at any point
 *      twice   A's process dies before its call I, and the node of its substitute before J, a
 *              tenth of a second later
 *      node    A's node dies before the call I
 *      then    like node; the substitute of A kills the process of B before its call J
 *      nodes   like node; the substitute of A kills the node of B before its call J, or that of
 *              the third PE if B shares its own node
 */
#include "test.h"

#include "kill_later.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CALLS = 12, CASES = 4096, WORDS = 40, PES = 3, EVERY = 7 };

/* Notes that outlive a PE's processes: its current process, and the deaths so far. */
struct notes {
    _Atomic int process[PES], agent[PES];
    _Atomic char died[CASES][2];
};

/* State of this process. */
struct own {
    const char *how;
    int a, b, from, to, step, me, calls;
    struct notes *notes;
};

static long round_, value;
static long box[WORDS], got[WORDS], flag, counts[3], token, mine, sum;
static uint64_t signal_;

static int is(const struct own *own, const char *how) {
    return !strcmp(own->how, how);
}

/* The case of this interval, or -1. Cases are a varying number of intervals apart, so that a PE
   makes progress between deaths. */
static int case_of(const struct own *own) {
    long nth = round_ / EVERY * 2 + (round_ % EVERY == 3);
    long number = own->from + nth * own->step;
    return (round_ % EVERY == 0 || round_ % EVERY == 3) && number < own->to ? (int)number : -1;
}

/* Kills a PE, or its agent, with which its node ends. */
static void kill_pe(const struct own *own, int pe, int with_node) {
    kill((with_node ? own->notes->agent : own->notes->process)[pe], SIGKILL);
    if (pe == own->me)
        for (;;)
            pause();
}

/* Runs before each call. */
static void call(struct own *own) {
    static long delay;
    int at = ++own->calls, number = case_of(own);
    if (number < 0 || is(own, "none"))
        return;
    int i = number / CALLS + 1, j = number % CALLS + 1;
    _Atomic char *died = own->notes->died[number];
    int is_first = own->me == own->a && at == i && !died[0];
    int chain = is(own, "chain"), then = is(own, "then"), nodes = is(own, "nodes");
    int is_second = own->me == own->b && is(own, "each") && at == j && !died[1];
    int in_replay = own->me == own->a && died[0] && at == j && !died[1];
    if (is(own, "twice") && in_replay) {
        died[1] = 1;
        usleep(100000); /* meanwhile the launcher hears that it has caught up */
        kill_pe(own, own->me, 1);
    } else if (is_first || is_second) {
        died[is_second] = 1;
        if (is(own, "both"))
            kill_pe(own, own->b, 0);
        kill_pe(own, own->me, is_first && (is(own, "node") || then || nodes));
    } else if (in_replay && (is(own, "replay") || chain || then || nodes)) {
        _Atomic int *agent = own->notes->agent;
        int third = PES - own->a - own->b;
        died[1] = 1;
        kill_pe(own, nodes && agent[own->b] == agent[own->me] ? third : own->b, nodes);
        if (chain) {
            pthread_t thread;
            delay = 100000L * (number % 97);
            pthread_create(&thread, NULL, kill_later, &delay);
        }
    }
}

#define CALL(how) (call(own), how)

static void turn(struct own *own) {
    int right = (own->me + 1) % PES, left = (own->me + PES - 1) % PES;
    long next = round_ + 1;
    own->calls = 0;
    CALL(shmem_barrier_all()); /* all have left the checkpoint */
    for (int i = 0; i < WORDS; i++)
        got[i] = value * 31 + i + round_;
    CALL(shmem_long_put(box, got, WORDS, right));
    shmem_fence();
    CALL(shmem_long_p(&flag, next, right));
    CALL(shmem_long_wait_until(&flag, SHMEM_CMP_EQ, next));
    for (int i = 0; i < WORDS; i++)
        value = (value * 7 + box[i]) % 1000003;
    value += CALL(shmem_long_atomic_fetch_add(&counts[0], value, right));
    value += CALL(shmem_long_atomic_fetch_add(&counts[1], value, left));
    mine = value;
    CALL(shmem_long_put_signal(&token, &mine, 1, &signal_, (uint64_t)next, SHMEM_SIGNAL_SET, left));
    CALL(shmem_signal_wait_until(&signal_, SHMEM_CMP_EQ, (uint64_t)next));
    value = value * 3 + token;
    CALL(shmem_long_atomic_inc(&counts[2], right));
    CALL(shmem_barrier_all());
    value += counts[2] + CALL(shmem_long_g(&token, right));
    mine = value;
    CALL(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1));
    value = (value * 5 + sum) % 1000003;
}

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc >= 6 && shmem_n_pes() == PES);
    struct own own = {argv[1],       atoi(argv[2]), atoi(argv[3]),   atoi(argv[4]),
                      atoi(argv[5]), 1,             shmem_my_pe(), 0, NULL};
    own.step = argc > 6 ? atoi(argv[6]) : 1;
    CHECK(own.to <= CASES);
    int file = open("notes", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && !ftruncate(file, sizeof *own.notes));
    own.notes = mmap(NULL, sizeof *own.notes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(own.notes != MAP_FAILED);
    own.notes->process[own.me] = getpid();
    own.notes->agent[own.me] = getppid();
    if (shmem_ft_algo_init())
        value = own.me + 1;
    int cases = (own.to - own.from + own.step - 1) / own.step;
    for (;;) {
        if (!saved(shmem_barrier_all))
            continue;
        if (round_ == (cases + 1) / 2 * EVERY)
            break;
        turn(&own);
        round_++;
    }
    mine = value;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1);
    if (own.me == 0)
        printf("sum %ld\n", sum);
    shmem_finalize();
    return 0;
}
