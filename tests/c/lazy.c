/*
 * lazy: allocated memory that is not written takes no physical memory, and nothing is prefaulted
 * for checkpoints before the first one is taken; a block that comes later is not prefaulted before
 * the next.
 */
#include "test.h"

enum { BLOCK = 64 << 20, LITTLE = 4 << 20 };

/* Returns the bytes that this process has mapped and resident. */
static long resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

static char *allocate(void) {
    long before = resident();
    char *block = shmem_malloc(BLOCK);
    CHECK(block && resident() - before < LITTLE);
    block = shmem_realloc(block, BLOCK / 2);
    block = shmem_realloc(block, BLOCK / 2 + 64);
    CHECK(block && resident() - before < LITTLE);
    return block;
}

int main(void) {
    shmem_init();
    char *first = allocate();
    shmem_barrier_all();
    int saves = getenv("SHMEM_FT_BACKUP_MODE") && strcmp(getenv("SHMEM_FT_BACKUP_MODE"), "none");
    long before = resident();
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    CHECK((resident() - before > BLOCK / 2) == saves);
    char *second = allocate();
    first[0] = second[0] = 1;
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    if (shmem_my_pe() == 0)
        printf("lazy ok\n");
    shmem_finalize();
    return 0;
}
