/*
 * local_rollback_words: atomic operations, signals, tests, waits for several words, locks,
 * contexts, and collectives with blocks of different sizes, in a program of local_rollback.h.
 *
 * Where PEs contend for a word, the values that each finds depend on timing. Those do not enter the
 * sum, but must satisfy invariants: each ticket is drawn once, no addition is lost, and a PE has
 * told its peers what it found.
 *
 * what: plain    (the default)
 *       tickets  only the contended words, and often: for a kill at any moment
 *       held     PE 1 dies while PE 0, which keeps changing a word of it, is stopped; PE 0
 *                continues long after the substitute has started
 */
#include "local_rollback.h"

enum { MOST = 8, TICKETS = 40, HELD = 3, CHANGES = 100000 };

static long counter, marks[MOST * TICKETS * ROUNDS], chain, added, emptied, found, told[MOST];
static long pair[16], words[MOST], list[MOST], lists[MOST * MOST], lock, held, spins, spun;
static uint64_t bits, signals[4];
static uint32_t narrow;
static float real;
static double wide;
static long box[MOST], back, blocks[2 * MOST], all[MOST * MOST], mine[MOST * 2];
static int status[MOST];

/* No other PE changes the word, so PE 0 finds consecutive numbers. */
static void hold_up(struct own *own) {
    static long process, solo;
    process = getpid();
    CALL(shmem_barrier_all());
    if (own->me == 0) {
        for (long i = 0; i < CHANGES; i++) {
            long there = CALL(shmem_long_atomic_fetch_inc(&solo, 1));
            CHECK(shmemx_ft_faulted() || there == i);
        }
    } else if (own->me == 2 && own->dies) {
        pid_t stopped = (pid_t)CALL(shmem_long_g(&process, 0));
        pid_t victim = (pid_t)CALL(shmem_long_g(&process, 1));
        own->dies = 0;
        usleep(2000); /* PE 0 is still in its loop by then */
        kill(stopped, SIGSTOP);
        kill(victim, SIGKILL);
        while (!kill(victim, 0))
            usleep(100);
        usleep(100000);
        kill(stopped, SIGCONT);
    }
    CALL(shmem_barrier_all());
    CHECK(CALL(shmem_long_g(&solo, 1)) == CHANGES || shmemx_ft_faulted());
    CALL(shmem_barrier_all());
}

static long sum_of(long of_mine) {
    static long in, out;
    in = of_mine;
    int failed = shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &out, &in, 1);
    CHECK(shmemx_ft_faulted() || !failed);
    return out;
}

/* Draws tickets, each once, whichever PE dies: the owner marks each, and in the end all are
 * marked. */
static void draw(struct own *own, int times) {
    for (int i = 0; i < times; i++) {
        long ticket = CALL(shmem_long_atomic_fetch_inc(&counter, i % 2 ? 0 : 1));
        long place = (i % 2 ? MOST * TICKETS * ROUNDS / 2 : 0) + ticket;
        CHECK(shmemx_ft_faulted() || place < MOST * TICKETS * ROUNDS);
        if (place < MOST * TICKETS * ROUNDS)
            CALL(shmem_long_atomic_inc(&marks[place], 0));
    }
    CALL(shmem_barrier_all());
    if (own->me == 0 && !shmemx_ft_faulted()) {
        long drawn = 0, half = MOST * TICKETS * ROUNDS / 2;
        for (long i = 0; i < MOST * TICKETS * ROUNDS; i++) {
            CHECK(marks[i] == 0 || marks[i] == 1);
            CHECK(marks[i] == 0 || i % half == 0 || marks[i - 1] == 1);
            drawn += marks[i];
        }
        CHECK(drawn == (round_ + 1) * own->n * times);
    }
    CALL(shmem_barrier_all());
}

/* All PEs swap one word: the values found plus the last one left are the values brought. */
static void swap(struct own *own) {
    long brings = 1000 * round_ + own->me + 1;
    found += CALL(shmem_long_atomic_swap(&chain, brings, 0));
    CALL(shmem_long_p(&told[own->me], found, 0));
    CALL(shmem_long_atomic_add(&added, own->me + 1, 1));
    if (own->me == 2)
        emptied += CALL(shmem_long_atomic_swap(&added, 0, 1));
    CALL(shmem_barrier_all());
    long is = sum_of(found);
    long left = CALL(shmem_long_atomic_fetch(&chain, 0));
    long was = 0, gone = sum_of(emptied), there = CALL(shmem_long_g(&added, 1));
    for (long r = 0; r <= round_; r++)
        for (int pe = 0; pe < own->n; pe++)
            was += 1000 * r + pe + 1;
    CHECK(shmemx_ft_faulted() || is + left == was);
    CHECK(shmemx_ft_faulted() || gone + there == (round_ + 1) * own->n * (own->n + 1) / 2);
    long heard = CALL(shmem_long_g(&told[own->me], 0));
    CHECK(shmemx_ft_faulted() || heard == found);
    CALL(shmem_barrier_all());
}

/* Updates a neighbour's words, which no other PE does: all values found enter the sum. */
static void operate(struct own *own, int right) {
    uint64_t mask = (uint64_t)value * 0x9fb21c651e98df25u;
    value += (long)CALL(shmem_uint64_atomic_fetch_or(&bits, mask, right));
    value += (long)CALL(shmem_uint64_atomic_fetch_xor(&bits, mask >> 7, right));
    value += (long)CALL(shmem_uint64_atomic_fetch_and(&bits, ~(mask >> 3), right));
    CALL(shmem_uint64_atomic_or(&bits, mask >> 5, right));
    CALL(shmem_uint64_atomic_xor(&bits, mask >> 11, right));
    CALL(shmem_uint64_atomic_and(&bits, ~(mask >> 13), right));
    value += CALL(shmem_long_atomic_fetch_add(&pair[0], value, right));
    CALL(shmem_long_atomic_set(&pair[1], value, right));
    value += CALL(shmem_long_atomic_compare_swap(&pair[1], value, round_, right));
    value += CALL(shmem_long_atomic_compare_swap(&pair[1], -1, 7, right));
    value += CALL(shmem_uint32_atomic_fetch_add(&narrow, 0x90000000u, right));
    CALL(shmem_uint32_atomic_inc(&narrow, right));
    value += (long)CALL(shmem_float_atomic_swap(&real, (float)(value % 1000), right));
    CALL(shmem_double_atomic_set(&wide, (double)(value % 1000), right));
    value += (long)CALL(shmem_double_atomic_fetch(&wide, right));
    long later[5];
    CALL(shmem_long_atomic_fetch_add_nbi(&later[0], &pair[2], value, right));
    CALL(shmem_long_atomic_swap_nbi(&later[1], &pair[3], value, right));
    CALL(shmem_long_atomic_compare_swap_nbi(&later[2], &pair[3], value, 5, right));
    CALL(shmem_long_atomic_fetch_inc_nbi(&later[3], &pair[2], right));
    CALL(shmem_long_atomic_fetch_nbi(&later[4], &pair[2], right));
    CALL(shmem_quiet());
    for (int i = 0; i < 5; i++)
        value = value * 3 + later[i];
    value += CALL(shmem_long_atomic_fetch_add(&pair[4], value, own->me)); /* on itself */
    value += CALL(shmem_long_atomic_swap(&pair[4], round_, own->me));
}

static void signal_(struct own *own, int right, int left) {
    for (int i = 0; i < MOST; i++)
        mine[i] = value + i;
    uint64_t next = (uint64_t)round_ + 1;
    CALL(shmem_long_put_signal(box, mine, MOST, &signals[0], next, SHMEM_SIGNAL_SET, right));
    value += (long)CALL(shmem_signal_wait_until(&signals[0], SHMEM_CMP_GE, next));
    for (int i = 0; i < MOST; i++)
        value = value * 5 + box[i];
    mine[0] = value;
    CALL(shmem_long_put_signal_nbi(&back, mine, 1, &signals[1], 2, SHMEM_SIGNAL_ADD, left));
    CALL(shmem_signal_wait_until(&signals[1], SHMEM_CMP_EQ, 2 * next));
    value += back;
    CALL(shmem_signal_add(&signals[2], 3, right));
    CALL(shmem_fence());
    CALL(shmem_signal_set(&signals[3], next, right));
    CALL(shmem_signal_wait_until(&signals[3], SHMEM_CMP_EQ, next));
    value += (long)CALL(shmem_signal_fetch(&signals[2]));
}

/* Timing decides how often a test fails and which word comes first, so a PE only checks that what
   it told its peer is what it found. */
static void test(struct own *own, int right) {
    int me = own->me;
    size_t n = (size_t)own->n;
    long next = round_ + 1;
    for (int pe = 0; pe < own->n; pe++)
        CALL(shmem_long_p(&words[me], next, pe));
    call(own);
    while (!shmem_long_test(&words[right], SHMEM_CMP_GE, next))
        spins++;
    CALL(shmem_long_p(&spun, spins, right));
    memset(status, 0, sizeof status);
    for (size_t i = 0; i < n; i++) {
        size_t any = CALL(shmem_long_wait_until_any(words, n, status, SHMEM_CMP_GE, next));
        CHECK(shmemx_ft_faulted() || any < (size_t)n);
        status[any % MOST] = 1;
        list[i] = list[i] * 8 + (long)any;
    }
    size_t some[MOST];
    CALL(shmem_long_wait_until_all(words, n, NULL, SHMEM_CMP_GE, next));
    value += (long)CALL(shmem_long_test_some(words, n, some, NULL, SHMEM_CMP_GE, next));
    value += CALL(shmem_long_test_all(words, n, NULL, SHMEM_CMP_GT, next));
    value += CALL(shmem_long_test_any(words, n, NULL, SHMEM_CMP_GT, next)) == SIZE_MAX;
    CALL(shmem_long_put(&lists[me * MOST], list, n, right));
    CALL(shmem_barrier_all());
    long there[MOST];
    CALL(shmem_long_get(there, &lists[me * MOST], n, right));
    CHECK(shmemx_ft_faulted() || !memcmp(there, list, sizeof(long) * n));
    CHECK(CALL(shmem_long_g(&spun, right)) == spins || shmemx_ft_faulted());
    CALL(shmem_barrier_all());
}

/* Updates a counter on one PE with a get and a put, under a lock. */
static void hold(struct own *own) {
    for (int i = 0; i < HELD; i++) {
        if (i % 2)
            CALL(shmem_set_lock(&lock));
        else {
            call(own);
            while (shmem_test_lock(&lock))
                if (shmemx_ft_faulted())
                    return;
        }
        long now = CALL(shmem_long_g(&held, 1));
        CALL(shmem_long_p(&held, now + 1, 1));
        CALL(shmem_clear_lock(&lock));
    }
    CALL(shmem_barrier_all());
    CHECK(CALL(shmem_long_g(&held, 1)) == (round_ + 1) * own->n * HELD || shmemx_ft_faulted());
    CALL(shmem_barrier_all());
}

static void others(struct own *own, int right) {
    int me = own->me, n = own->n;
    shmem_ctx_t ctx;
    CHECK(!CALL(shmem_ctx_create(0, &ctx)));
    mine[0] = value;
    CALL(shmem_ctx_long_put(ctx, &pair[5], mine, 1, right));
    CALL(shmem_ctx_fence(ctx));
    value += CALL(shmem_ctx_long_atomic_fetch_add(ctx, &pair[6], value, right));
    CALL(shmem_ctx_long_put_nbi(ctx, &pair[7], mine, 1, right));
    CALL(shmem_ctx_quiet(ctx));
    CALL(shmem_ctx_destroy(ctx));
    CALL(shmem_barrier_all());
    value += pair[5] + pair[7];
    for (int i = 0; i < 2 * MOST; i++)
        mine[i] = value + i;
    CALL(shmem_long_collect(SHMEM_TEAM_WORLD, all, mine, (size_t)(me + 1)));
    for (int i = 0; i < n * (n + 1) / 2; i++)
        value = value * 3 + all[i];
    for (int i = 0; i < 2 * n; i++)
        mine[i] = value + i;
    CALL(shmem_long_alltoalls(SHMEM_TEAM_WORLD, blocks, mine, 2, 2, 1));
    for (int i = 0; i < n; i++)
        value = value * 3 + blocks[2 * i];
    CALL(shmem_barrier_all());
}

static void turn(struct own *own) {
    int right = (own->me + 1) % own->n, left = (own->me + own->n - 1) % own->n;
    CHECK(own->n >= 3 && own->n <= MOST);
    if (is(own, "held")) {
        if (round_ == 4)
            hold_up(own);
        return;
    }
    if (is(own, "tickets")) {
        draw(own, TICKETS);
        swap(own);
        return;
    }
    draw(own, 2);
    swap(own);
    operate(own, right);
    signal_(own, right, left);
    test(own, right);
    hold(own);
    others(own, right);
}
