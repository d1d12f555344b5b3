/*
 * alone: a PE dies before one of its calls, and goes back alone.
 *
 *     alone PE CALL [what]     the original of that PE kills itself before its call number CALL;
 *                              with CALL 0 nobody dies; with CALL -N a thread kills it N
 *                              microseconds after its first checkpoint, whatever it does
 *
 * What each PE computes depends on all that it is sent, so the sum is right only if every call gave
 * what it should. PE 0 prints it, and how many calls a PE makes.
 *
 * what: plain     calls that are logged (the default)
 *       atomic    an atomic operation too, in round 5
 *       varied    a substitute puts something else than the original
 *       large     more than a small log holds, in round 5
 *       again     the first substitute kills itself too, in its next call
 */
#include "test.h"

#include "kill_later.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { WORDS = 40, ROUNDS = 9, EVERY = 3, LARGE = 1 << 20 };

static long round_, value, flag, box[WORDS], wide[2 * WORDS], got[WORDS], sums[4], parts[64];
static long mine[64], blocks[64], total, token;
static char large[LARGE], filled[LARGE];

/* What is of this process: static variables come back with the checkpoint. */
struct own {
    int victim, at, calls, me, n, dies;
    const char *what;
};

/* Before each call that is logged. */
static void call(struct own *own) {
    if (own->me == own->victim && ++own->calls == own->at && own->dies)
        kill(getpid(), SIGKILL);
}

#define CALL(how) (call(own), how)

static void turn(struct own *own) {
    int me = own->me, n = own->n, right = (me + 1) % n, left = (me + n - 1) % n;
    const char *what = own->what;
    for (int i = 0; i < WORDS; i++)
        got[i] = value * 31 + i + round_;
    if (!strcmp(what, "varied") && !own->dies && round_ > 3 && me == own->victim)
        got[3]++;
    CALL(shmem_long_put(box, got, WORDS, right));
    CALL(shmem_long_iput(wide, got, 2, 1, WORDS, right));
    CALL(shmem_fence());
    CALL(shmem_long_p(&flag, round_ + 1, right));
    CALL(shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round_ + 1));
    for (int i = 0; i < WORDS; i++)
        value = value * 7 + box[i] + wide[2 * i];
    CALL(shmem_quiet());
    CALL(shmem_barrier_all());
    token = value;
    CALL(shmem_barrier_all());
    CALL(shmem_long_get(got, &token, 1, left));
    value += got[0] + CALL(shmem_long_g(&token, right));
    CALL(shmem_long_iget(got, box, 1, 2, WORDS / 2, left));
    value += got[1];
    mine[0] = value;
    CALL(shmem_long_broadcast(SHMEM_TEAM_WORLD, parts, mine, 1, (int)(round_ % n)));
    value += parts[0];
    for (int i = 0; i < n; i++)
        mine[i] = value + i;
    CALL(shmem_long_fcollect(SHMEM_TEAM_WORLD, parts, mine, 1));
    CALL(shmem_long_alltoall(SHMEM_TEAM_WORLD, blocks, mine, 1));
    for (int i = 0; i < n; i++)
        value = value * 3 + parts[i] + blocks[i];
    mine[0] = value;
    CALL(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, mine, 1));
    CALL(shmem_long_max_reduce(SHMEM_TEAM_WORLD, sums + 1, mine, 1));
    CALL(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, sums + 2, mine, 1));
    CALL(shmem_long_sum_exscan(SHMEM_TEAM_WORLD, sums + 3, mine, 1));
    value += sums[0] + 3 * sums[1] + 5 * sums[2] + 7 * sums[3];
    long *block = CALL(shmem_malloc(sizeof(long) * 8));
    CHECK(block);
    CALL(shmem_long_p(block + 1, value, left));
    CALL(shmem_barrier_all());
    value ^= block[1];
    CALL(shmem_free(block));
    if (!strcmp(what, "atomic") && round_ == 5)
        CALL(shmem_long_atomic_add(&total, 1, right));
    if (!strcmp(what, "large") && round_ == 5) {
        memset(filled, (int)round_, LARGE);
        CALL(shmem_putmem(large, filled, LARGE, right));
        CALL(shmem_putmem(large, filled, LARGE, right));
        CALL(shmem_barrier_all());
        CHECK(shmemx_ft_faulted() || large[LARGE - 1] == 5);
    }
}

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc >= 3);
    struct own own_ = {atoi(argv[1]), atoi(argv[2]), 0, shmem_my_pe(), shmem_n_pes(), 0, "plain"};
    struct own *own = &own_;
    own->what = argc > 3 ? argv[3] : own->what;
    own->dies = shmem_ft_algo_init();
    if (own->dies)
        value = own->me + 1;
    if (!own->dies && !strcmp(own->what, "again")) {
        /* The first substitute leaves a mark, so that only it dies. */
        FILE *mark = fopen("mark", "wx");
        if (mark)
            fclose(mark), own->at = 3, own->dies = 1;
    }
    long delay = 0;
    for (;;) {
        if (round_ % EVERY == 0 && !saved(shmem_barrier_all))
            continue;
        if (round_ == ROUNDS)
            break;
        if (own->dies && own->at < 0 && own->me == own->victim && !delay) {
            delay = own->at * -1000L;
            pthread_t thread;
            pthread_create(&thread, NULL, kill_later, &delay);
        }
        turn(own);
        round_++;
    }
    mine[0] = value;
    CALL(shmem_long_fcollect(SHMEM_TEAM_WORLD, parts, mine, 1));
    uint64_t sum = 0;
    for (int i = 0; i < own->n; i++)
        sum = sum * 1000003 + (uint64_t)parts[i];
    if (own->me == 0)
        printf("sum %llu\n", (unsigned long long)sum);
    if (own->me == own->victim)
        printf("calls %d\n", own->calls);
    shmem_finalize();
    return 0;
}
