/*
 * threads: four threads in each PE, in different calls at once, while one of them kills its PE.
 *
 * A round: threads are started, each does its part TURNS times, all are joined; then the main
 * thread takes a checkpoint, or restarts the lost PEs. The parts:
 *
 *     MOVE     puts with signals round the PEs and gets back, in its own context
 *     COUNT    atomic updates of words of the next PE, and a lock
 *     JOIN     collectives of its own team
 *     MEET     barriers and syncs of another team, whose last PE is first
 *
 * Errors that a thread finds are counted in symmetric memory: in a round with a death they are
 * undone with everything else. Arguments: the PE that kills itself, and in which part. Without them
 * no PE does.
 */
#include "test.h"

#include <pthread.h>
#include <signal.h>

enum { ROUNDS = 6, TURNS = 60, WORDS = 300 };
enum part { MOVE, COUNT, JOIN, MEET, PARTS };

static long round_number, wrong[PARTS];
static uint64_t arrived, taken;
static long box[WORDS], back[WORDS];
static long counter, lock, turns;
static long mine[WORDS], sums[WORDS], all[64];
static shmem_team_t teams[PARTS];
static int me, n_pes, killer = -1, killing_part = -1;

static long value(int pe, long turn, int word) {
    return 1000003L * pe + 1009L * turn + word;
}

static void die_here(enum part part, int turn) {
    if (me == killer && part == (enum part)killing_part && shmem_ft_algo_init())
        if (round_number == 2 && turn == TURNS / 2)
            raise(SIGKILL);
}

static void move(void) {
    int next = (me + 1) % n_pes, before = (me + n_pes - 1) % n_pes;
    long out[WORDS];
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
    for (int i = 0; i < TURNS; i++) {
        uint64_t turn = (uint64_t)(round_number * TURNS + i + 1);
        for (int word = 0; word < WORDS; word++)
            out[word] = value(me, i, word);
        shmem_ctx_long_put_signal(ctx, box, out, WORDS, &arrived, turn, SHMEM_SIGNAL_SET, next);
        shmem_signal_wait_until(&arrived, SHMEM_CMP_GE, turn);
        die_here(MOVE, i);
        for (int word = 0; word < WORDS; word++)
            wrong[MOVE] += box[word] != value(before, i, word);
        shmem_ctx_long_get_nbi(ctx, back, box, WORDS, next);
        shmem_ctx_quiet(ctx);
        for (int word = 0; word < WORDS; word++)
            wrong[MOVE] += back[word] != value(me, i, word);
        shmem_ctx_signal_add(ctx, &taken, 1, before); /* it may be overwritten from now on */
        shmem_signal_wait_until(&taken, SHMEM_CMP_GE, turn);
    }
    shmem_ctx_destroy(ctx);
}

static void count(void) {
    int next = (me + 1) % n_pes;
    for (int i = 0; i < TURNS; i++) {
        shmem_long_atomic_add(&counter, 2, next);
        long seen = shmem_long_atomic_fetch(&counter, next);
        shmem_long_atomic_compare_swap(&counter, seen, seen, next);
        die_here(COUNT, i);
        shmem_set_lock(&lock);
        shmem_long_p(&turns, shmem_long_g(&turns, 0) + 1, 0);
        shmem_clear_lock(&lock);
    }
}

static void join(void) {
    for (int i = 0; i < TURNS; i++) {
        for (int word = 0; word < WORDS; word++)
            mine[word] = value(me, i, word);
        int bad = shmem_long_sum_reduce(teams[JOIN], sums, mine, WORDS);
        die_here(JOIN, i);
        for (int word = 0; word < WORDS; word += 7) {
            long right = 0;
            for (int pe = 0; pe < n_pes; pe++)
                right += value(pe, i, word);
            wrong[JOIN] += sums[word] != right;
        }
        bad |= shmem_long_fcollect(teams[JOIN], all, mine, 1);
        for (int pe = 0; pe < n_pes; pe++)
            wrong[JOIN] += all[pe] != value(pe, i, 0);
        bad |= shmem_long_broadcast(teams[JOIN], sums, mine, WORDS, n_pes - 1);
        wrong[JOIN] += bad != 0 || sums[1] != value(n_pes - 1, i, 1);
        shmem_team_sync(teams[JOIN]);
    }
}

static void meet(void) {
    int index = shmem_team_my_pe(teams[MEET]);
    wrong[MEET] += index != n_pes - 1 - me;
    for (int i = 0; i < TURNS; i++) {
        die_here(MEET, i);
        wrong[MEET] += shmem_team_sync(teams[MEET]) != 0;
    }
}

static void *thread(void *part) {
    static void (*const parts[PARTS])(void) = {move, count, join, meet};
    parts[(intptr_t)part]();
    return NULL;
}

static void play(void) {
    pthread_t threads[PARTS];
    for (intptr_t part = 0; part < PARTS; part++)
        CHECK(pthread_create(&threads[part], NULL, thread, (void *)part) == 0);
    for (int part = 0; part < PARTS; part++)
        CHECK(pthread_join(threads[part], NULL) == 0);
}

static void save(void) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        recover();
}

int main(int argc, char **argv) {
    int provided;
    if (argc > 2)
        killer = atoi(argv[1]), killing_part = atoi(argv[2]);
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    CHECK(provided == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    if (shmem_ft_algo_init()) {
        shmem_team_t world = SHMEM_TEAM_WORLD;
        CHECK(!shmem_team_split_strided(world, 0, 1, n_pes, NULL, 0, &teams[JOIN]));
        CHECK(!shmem_team_split_strided(world, n_pes - 1, -1, n_pes, NULL, 0, &teams[MEET]));
    }
    while (save(), round_number < ROUNDS) {
        play();
        shmem_barrier_all();
        round_number++;
    }
    for (int part = 0; part < PARTS; part++)
        CHECK(wrong[part] == 0);
    CHECK(counter == 2L * ROUNDS * TURNS);
    CHECK(me != 0 || turns == (long)ROUNDS * TURNS * n_pes);
    shmem_barrier_all();
    if (me == 0)
        printf("threads: ok\n");
    shmem_finalize();
    return 0;
}
