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
    free(heap);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "nothing";
    before(how);
    shmem_init();
    /* allocation is collective: all PEs make those mistakes together */
    if (shmem_my_pe() == shmem_n_pes() - 1 || !strncmp(how, "free", 4))
        inside(how);
    shmem_barrier_all();
    shmem_finalize();
    if (!strcmp(how, "put-after"))
        shmem_long_p(&word, 1, 0);
    return 0;
}
