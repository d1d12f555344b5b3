/*
 * conform: calls that are right by the specification, one group for each argument.
 */
#include "test.h"

static long word;

/* Memory is at a multiple of what was asked for, on every PE, and is really there. */
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

/* Nothing is done with a context that is none. */
static void no_context(void) {
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_pe_quiet(SHMEM_CTX_INVALID, (int[]){0, 99}, 2);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_long_p(&word, 1, 0);
    shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    shmem_init();
    if (!strcmp(what, "align"))
        align();
    if (!strcmp(what, "no-context"))
        no_context();
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        puts("conform ok");
    shmem_finalize();
    return 0;
}
