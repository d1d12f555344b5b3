/* Puts of a word to an unmapped PE allocate no memory: allocations by any library, on the thread
   that puts, are counted. Two PEs, each on its own node. */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>

enum { N = 64, PUTS = 4000, WINDOW = 16 };

static long words[N];

/* The number of allocations on this thread. */
static _Thread_local long asked;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes) {
    asked++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    asked++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    asked++;
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    asked++;
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes) {
    asked++;
    *place = __libc_memalign(alignment, bytes);
    return *place ? 0 : ENOMEM;
}

/* Makes one put, in one of the forms. */
static void put(int form, int at, long value, int pe) {
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    switch (form) {
    case 0: shmem_long_p(&words[at], value, pe); break;
    case 1: shmem_long_put(&words[at], &value, 1, pe); break;
    case 2: shmem_putmem(&words[at], &value, sizeof value, pe); break;
    default: shmem_ctx_long_p(ctx, &words[at], value, pe);
    }
}

/* Makes many puts, completed in windows, and returns their allocations, without those of quiets. */
static long put_many(int form, int pe) {
    long sum = 0;
    for (int i = 0; i < PUTS; i++) {
        long before = asked;
        put(form, i % N, i, pe);
        sum += asked - before;
        if (i % WINDOW == WINDOW - 1)
            shmem_quiet();
    }
    return sum;
}

int main(void) {
    shmem_init();
    CHECK(shmem_n_pes() == 2);
    int other = 1 - shmem_my_pe();
    CHECK(shmem_ptr(words, other) == NULL);
    put_many(0, other); /* makes connections and lasting allocations */
    shmem_barrier_all();
    long before = asked;
    shmem_long_p(&words[0], 1, other);
    shmem_quiet();
    CHECK(asked > before); /* a quiet does allocate: allocations in libraries are counted */
    for (int form = 0; form < 4; form++) {
        long sum = put_many(form, other);
        printf("short: PE %d, form %d: %ld of %d puts\n", shmem_my_pe(), form, sum, PUTS);
        CHECK(sum == 0);
        shmem_barrier_all();
        for (int i = 0; i < N; i++)
            CHECK(words[i] == (PUTS - 1 - i) / N * N + i);
        shmem_barrier_all();
    }
    if (shmem_my_pe() == 0)
        printf("short: all as promised\n");
    shmem_finalize();
    return 0;
}
