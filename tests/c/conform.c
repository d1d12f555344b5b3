/*
 * conform: calls that the specification allows, one group per argument.
 */
#define _DEFAULT_SOURCE

#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

static long word;

/* Memory is aligned as requested on every PE, and is usable. */
static void align(void) {
    for (size_t alignment = sizeof(void *); alignment <= (size_t)16 << 20; alignment *= 2) {
        char *small = shmem_malloc(24);
        char *block = shmem_align(alignment, 1000);
        CHECK(small && block);
        CHECK((uintptr_t)block % alignment == 0);
        memset(block, 1, 1000);
        shmem_free(small);
        shmem_free(block);
    }
}

/* Calls on an invalid context have no effect. */
static void no_context(void) {
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_pe_quiet(SHMEM_CTX_INVALID, (int[]){0, 99}, 2);
    shmem_ctx_session_start(SHMEM_CTX_INVALID, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    shmem_ctx_session_stop(SHMEM_CTX_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_long_p(&word, 1, 0);
    shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
}

/* Session options and parameters that this library does not know are only hints. */
static void hints(void) {
    int next = (shmem_my_pe() + 1) % shmem_n_pes();
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    shmem_ctx_session_config_t config = {3};
    long unknown = ~(SHMEM_CTX_SESSION_BATCH | SHMEM_CTX_SESSION_TOTAL_OPS);
    struct {
        long options, mask;
    } asked[] = {
        {unknown, 0},
        {0, unknown},
        {unknown | SHMEM_CTX_SESSION_BATCH, unknown | SHMEM_CTX_SESSION_TOTAL_OPS},
    };
    for (long turn = 0; turn < 3; turn++) {
        shmem_ctx_session_start(ctx, asked[turn].options, &config, asked[turn].mask);
        shmem_ctx_long_p(ctx, &word, turn + 1, next);
        shmem_ctx_session_stop(ctx);
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
        CHECK(word == turn + 1);
        shmem_barrier_all();
    }
    shmem_ctx_destroy(ctx);
}

/* Returns one int at the end of a page, before unmapped memory. */
static int *at_the_edge(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(two != MAP_FAILED && munmap(two + page, page) == 0);
    return (int *)(two + page) - 1;
}

/* Restarts with a far too large number of PEs, with the list of the query and with a different one;
 * if `wrong`, with a PE that does not exist. */
static void list(int wrong) {
    static long step;
    int *edge = at_the_edge();
    while (step < 4) {
        if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS) {
            step++;
            continue;
        }
        int *pes = NULL;
        size_t n = 0;
        shmem_query_fault(&pes, NULL, &n);
        CHECK(n == 1 && pes[0] == 1);
        *edge = wrong ? 99 : pes[0];
        shmem_restart_pes(edge, (size_t)-1);
        free(pes);
        *edge = 99; /* no query since */
        shmem_restart_pes(edge, (size_t)-1);
        shmem_barrier_all();
    }
}

/* Collectives need no heap memory, even when not a byte of it is left. */
static void full(void) {
    static long one = 1, sum;
    for (size_t size = (size_t)1 << 40; size; size /= 2)
        while (shmem_malloc(size))
            ;
    CHECK(!shmem_malloc(1));
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &one, 1);
    CHECK(sum == shmem_n_pes());
    shmem_team_t even;
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, 2, NULL, 0, &even));
    if (even != SHMEM_TEAM_INVALID) {
        shmem_long_sum_reduce(even, &sum, &one, 1);
        CHECK(sum == 2);
    }
}

/* Teams of two PEs, one after another in the same slot, with PE 0 in all of them. */
static void pairs(void) {
    static long one = 1, sum, sent, got;
    for (int other = 1; other < 8 * shmem_n_pes(); other++) {
        shmem_team_t pair;
        CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1 + other % (shmem_n_pes() - 1),
                                        2, NULL, 0, &pair));
        for (int i = 0; i < 3 && pair != SHMEM_TEAM_INVALID; i++) {
            shmem_long_sum_reduce(pair, &sum, &one, 1);
            CHECK(sum == 2);
            sent = 10 * other + i;
            shmem_long_broadcast(pair, &got, &sent, 1, other / 3 % 2);
            CHECK(got == 10 * other + i);
            sent = -1;
        }
        shmem_team_destroy(pair);
    }
}

/* Every PE has buffered output: one is in the library, one in its own loop, one asleep. Then the
 * last one makes a mistake. */
static void buffered(int argc) {
    int me = shmem_my_pe();
    printf("PE %d has something to say\n", me); /* to a pipe: buffered */
    shmem_barrier_all();
    if (me == shmem_n_pes() - 1)
        shmem_long_p(&word, 1, argc + 99);
    if (me == 1)
        for (volatile long i = 0;; i++)
            ;
    if (me == 2)
        for (;;)
            pause();
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    shmem_init();
    if (!strcmp(what, "align"))
        align();
    if (!strcmp(what, "list") || !strcmp(what, "wrong-list"))
        list(what[0] == 'w');
    if (!strcmp(what, "full"))
        full();
    if (!strcmp(what, "pairs"))
        pairs();
    if (!strcmp(what, "buffered"))
        buffered(argc);
    if (!strcmp(what, "no-context"))
        no_context();
    if (!strcmp(what, "hints"))
        hints();
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        puts("conform ok");
    shmem_finalize();
    return 0;
}
