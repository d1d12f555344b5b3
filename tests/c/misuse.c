/*
 * misuse: makes the mistake that its argument names, on the last PE, or before shmem_init.
 */
#include "test.h"

static long word;
static long words[4];

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

static void inside(const char *how) {
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
    if (!strcmp(how, "restart-list")) {
        int list[] = {0, 99};
        shmem_restart_pes(list, 2);
    }
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
    if (!strcmp(how, "team-invalid"))
        shmem_team_sync(SHMEM_TEAM_INVALID);
    if (!strcmp(how, "team-twice")) {
        shmem_team_t team;
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
        shmem_team_t copy = team;
        shmem_team_destroy(team);
        shmem_team_sync(copy);
    }
    if (!strcmp(how, "ctx-invalid"))
        shmem_ctx_long_p(SHMEM_CTX_INVALID, &word, 1, 0);
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
    shmem_init();
    /* allocation and splitting are collective: all PEs make those mistakes together */
    int together = !strncmp(how, "free", 4) || !strcmp(how, "team-twice");
    if (together || shmem_my_pe() == shmem_n_pes() - 1)
        inside(how);
    shmem_barrier_all();
    shmem_finalize();
    if (!strcmp(how, "put-after"))
        shmem_long_p(&word, 1, 0);
    if (!strcmp(how, "init-after"))
        shmem_init();
    return 0;
}
