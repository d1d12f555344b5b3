/*
 * misuse: makes the mistake that its argument names, on the last PE, or before shmem_init.
 */
#include "test.h"

#include <pthread.h>

static long word;
static long words[SHMEM_SYNC_SIZE];
static const long constants[2] = {1, 2};

static void before(const char *how) {
    if (!strcmp(how, "checkpoint-before"))
        shmem_checkpoint_all();
    if (!strcmp(how, "put-before"))
        shmem_long_p(&word, 1, 0);
    if (!strcmp(how, "pe-before"))
        printf("%d\n", shmem_my_pe());
    if (!strcmp(how, "restart-before"))
        shmem_restart_pes(NULL, 0);
}

static shmem_ctx_t shared;
static char large[4 << 20], copy[4 << 20];

static void *use(void *rounds) {
    for (long i = 0; i < (long)rounds; i++)
        shmem_ctx_getmem(shared, copy, large, sizeof large, shmem_my_pe());
    return NULL;
}

/* A second thread uses a context that this one created. */
static void another(long options, long rounds) {
    pthread_t thread;
    shmem_ctx_create(options, &shared);
    pthread_create(&thread, NULL, use, (void *)(rounds + 1));
    for (long i = 0; i < rounds; i++)
        shmem_ctx_quiet(shared);
    pthread_join(thread, NULL);
}

static void contexts(const char *how) {
    shmem_ctx_t ctx;
    if (!strcmp(how, "ctx-options"))
        shmem_ctx_create(64, &ctx);
    if (!strcmp(how, "ctx-made-up"))
        shmem_ctx_quiet((shmem_ctx_t)77);
    shmem_ctx_create(0, &ctx);
    if (!strcmp(how, "ctx-invalid"))
        shmem_ctx_long_p(SHMEM_CTX_INVALID, &word, 1, 0);
    if (!strcmp(how, "ctx-pe"))
        shmem_ctx_long_p(ctx, &word, 1, shmem_n_pes());
    if (!strcmp(how, "ctx-private"))
        another(SHMEM_CTX_PRIVATE, 0);
    if (!strcmp(how, "ctx-serialized"))
        another(SHMEM_CTX_SERIALIZED, 1000000);
    if (!strcmp(how, "ctx-default"))
        shmem_ctx_destroy(SHMEM_CTX_DEFAULT);
    if (!strcmp(how, "session-null"))
        shmem_ctx_session_start(ctx, 0, NULL, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_t again = ctx, next;
    shmem_ctx_destroy(ctx);
    shmem_ctx_create(0, &next); /* in the same slot, but a different one */
    if (!strcmp(how, "ctx-destroyed"))
        shmem_ctx_long_atomic_inc(again, &word, 0);
    if (!strcmp(how, "ctx-destroyed-fence"))
        shmem_ctx_fence(again);
    if (!strcmp(how, "ctx-destroyed-session"))
        shmem_ctx_session_stop(again);
    if (!strcmp(how, "ctx-destroyed-team")) {
        shmem_team_t team;
        shmem_ctx_get_team(again, &team);
    }
    if (!strcmp(how, "ctx-twice"))
        shmem_ctx_destroy(again);
}

/* Mistakes that all PEs make together. */
static void teams(const char *how) {
    shmem_team_t team, other;
    shmem_ctx_t ctx;
    shmem_team_config_t config = {.num_contexts = 1}, negative = {.num_contexts = -1};
    int n = shmem_n_pes();
    if (!strcmp(how, "team-mask"))
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, &config, 9, &team);
    if (!strcmp(how, "team-null"))
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 1, &team);
    if (!strcmp(how, "team-negative"))
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, &negative, 1, &team);
    if (!strcmp(how, "team-2d-mask"))
        shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, &team, &config, 8, &other);
    if (!strcmp(how, "team-get-mask"))
        shmem_team_get_config(SHMEM_TEAM_WORLD, 2, &config);
    if (!strcmp(how, "team-world"))
        shmem_team_destroy(SHMEM_TEAM_WORLD);
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team);
    shmem_team_create_ctx(team, !strcmp(how, "team-private") ? SHMEM_CTX_PRIVATE : 0, &ctx);
    shmem_team_t copy_of = team;
    shmem_team_destroy(team);
    if (!strcmp(how, "team-ctx"))
        shmem_ctx_quiet(ctx);
    if (!strcmp(how, "team-twice"))
        shmem_team_sync(copy_of);
}

static void families(const char *how) {
    static long from[2], to[2];
    static uint64_t signal_word;
    long local[2] = {0, 0};
    if (!strcmp(how, "stride"))
        shmem_long_iput(to, local, 0, 1, 2, 0);
    if (!strcmp(how, "stride-end"))
        shmem_long_iget(local, from, 1, (ptrdiff_t)1 << 40, 2, 0);
    if (!strcmp(how, "block"))
        shmem_long_ibput(to, local, 1, 2, 2, 2, 0);
    if (!strcmp(how, "sig-op"))
        shmem_long_put_signal(to, local, 1, &signal_word, 1, 7, 0);
    if (!strcmp(how, "sig-addr"))
        shmem_long_put_signal(to, local, 1, (uint64_t *)local, 1, SHMEM_SIGNAL_SET, 0);
    if (!strcmp(how, "fetch-local"))
        shmem_long_atomic_fetch(local, 0);
    if (!strcmp(how, "put-constant"))
        shmem_long_p((long *)constants, 1, 0);
    if (!strcmp(how, "reduce-constant"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, (long *)constants, from, 1);
    if (!strcmp(how, "add-constant"))
        shmem_long_atomic_add((long *)constants, 1, 0);
    if (!strcmp(how, "wait-constant"))
        shmem_long_wait_until((long *)constants, SHMEM_CMP_NE, 0);
    if (!strcmp(how, "swap-pe"))
        shmem_long_atomic_swap(to, 1, 99);
    if (!strcmp(how, "wait-local"))
        shmem_long_wait_until(local, SHMEM_CMP_EQ, 0);
    if (!strcmp(how, "test-any-local"))
        shmem_long_test_any(local, 2, NULL, SHMEM_CMP_EQ, 0);
    if (!strcmp(how, "pe-quiet"))
        shmem_pe_quiet((int[]){-1}, 1);
    if (!strcmp(how, "broadcast-source")) /* this PE is not the root */
        shmem_broadcastmem(SHMEM_TEAM_WORLD, to, local, sizeof local, 0);
    if (!strcmp(how, "collect-source"))
        shmem_collectmem(SHMEM_TEAM_WORLD, to, local, 8);
    if (!strcmp(how, "fcollect-source"))
        shmem_fcollectmem(SHMEM_TEAM_WORLD, to, local, 8);
    if (!strcmp(how, "alltoall-source"))
        shmem_alltoallmem(SHMEM_TEAM_WORLD, to, local, 8);
    if (!strcmp(how, "reduce-source"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, to, local, 1);
    if (!strcmp(how, "reduce-dest"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, local, from, 1);
    if (!strcmp(how, "scan-source"))
        shmem_long_sum_inscan(SHMEM_TEAM_WORLD, to, local, 1);
    if (!strcmp(how, "set-root"))
        shmem_broadcast64(to, from, 1, 5, 0, 0, shmem_n_pes(), words);
}

static void inside(const char *how) {
    families(how);
    if (!strncmp(how, "ctx-", 4) || !strncmp(how, "session-", 8))
        contexts(how);
    if (!strncmp(how, "team-", 5))
        teams(how);
    long local = 0;
    long *heap = malloc(sizeof *heap);
    if (!strcmp(how, "pe-high"))
        shmem_long_p(&word, 1, shmem_n_pes());
    if (!strcmp(how, "pe-low"))
        shmem_long_p(&word, 1, -1);
    if (!strcmp(how, "local"))
        shmem_long_p(&local, 1, 0);
    if (!strcmp(how, "malloc"))
        shmem_putmem(heap, &local, sizeof local, 0);
    if (!strcmp(how, "null"))
        shmem_long_get(&local, NULL, 1, 0);
    if (!strcmp(how, "past-end"))
        shmem_putmem(words, &local, (size_t)1 << 40, 0);
    if (!strcmp(how, "overflow"))
        shmem_long_put(words, &local, (size_t)-1 / 4, 0);
    if (!strcmp(how, "misaligned"))
        shmem_long_atomic_add((long *)((char *)&words + 3), 1, 0);
    if (!strcmp(how, "free-twice")) {
        char *block = shmem_malloc(100);
        shmem_free(block);
        shmem_free(block);
    }
    if (!strcmp(how, "free-inside"))
        shmem_free((char *)shmem_malloc(100) + 10);
    if (!strcmp(how, "cmp"))
        shmem_long_wait_until(&word, 99, 0);
    if (!strcmp(how, "put-count"))
        shmem_long_put(words, &local, (size_t)-1, 0);
    if (!strcmp(how, "get-word"))
        shmem_long_get(&local, &local, 1, 0);
    if (!strcmp(how, "p-high"))
        shmem_char_p((char *)&word, 1, 17);
    if (!strcmp(how, "broadcast-local"))
        shmem_broadcastmem(SHMEM_TEAM_WORLD, heap, words, sizeof *heap, 0);
    if (!strcmp(how, "root"))
        shmem_broadcastmem(SHMEM_TEAM_WORLD, &word, words, sizeof word, 2);
    if (!strcmp(how, "invalid-team"))
        shmem_team_sync(SHMEM_TEAM_INVALID);
    if (!strcmp(how, "set-negative"))
        shmem_sync(0, 0, -1, words);
    if (!strcmp(how, "reduce-negative")) {
        static long psync[SHMEM_REDUCE_SYNC_SIZE], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
        shmem_long_sum_to_all(&word, words, -1, 0, 0, shmem_n_pes(), work, psync);
    }
    if (!strcmp(how, "lock-local"))
        shmem_set_lock(heap);
    if (!strcmp(how, "lock-free"))
        shmem_clear_lock(&word);
    free(heap);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "nothing";
    before(how);
    int provided;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    /* Allocation and splitting are collective: all PEs make those mistakes together. */
    int together = !strncmp(how, "free", 4) || !strncmp(how, "team-", 5);
    if (together || shmem_my_pe() == shmem_n_pes() - 1)
        inside(how);
    shmem_barrier_all();
    if (!strcmp(how, "level"))
        shmem_init_thread(17, &provided);
    shmem_finalize();
    if (!strcmp(how, "put-after"))
        shmem_long_p(&word, 1, 0);
    if (!strcmp(how, "init-after"))
        shmem_init();
    return 0;
}
