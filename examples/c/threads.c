/* threads: four threads per PE, each with its own context: concurrent puts, atomics and waits. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, TIMES = 500 };
static long total, ball[THREADS], box[THREADS][16];
static long bad[THREADS];
static int me, n_pes;

/* Throws a ball around all PEs; thread t of each PE passes ball t on. */
static void *player(void *argument) {
    long t = (long)(intptr_t)argument, out[16];
    int next = (me + 1) % n_pes;
    shmem_ctx_t ctx;
    if (shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx))
        ctx = SHMEM_CTX_DEFAULT;
    for (long turn = 1; turn <= TIMES; turn++) {
        if (me > 0) {
            shmem_long_wait_until(&ball[t], SHMEM_CMP_GE, turn);
            for (int i = 0; i < 16; i++)
                bad[t] += box[t][i] != turn * 100 + i;
        }
        for (int i = 0; i < 16; i++)
            out[i] = turn * 100 + i;
        shmem_ctx_long_put(ctx, box[t], out, 16, next);
        shmem_ctx_fence(ctx);
        shmem_ctx_long_p(ctx, &ball[t], turn, next);
        shmem_ctx_long_atomic_add(ctx, &total, t + 1, (int)(turn % n_pes));
        if (me == 0)
            shmem_long_wait_until(&ball[t], SHMEM_CMP_GE, turn); /* the ball has returned */
    }
    shmem_ctx_quiet(ctx);
    if (ctx != SHMEM_CTX_DEFAULT)
        shmem_ctx_destroy(ctx);
    return NULL;
}

int main(void) {
    int provided;
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    CHECK(provided == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    pthread_t thread[THREADS];
    for (long t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, player, (void *)(intptr_t)t) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(thread[t], NULL) == 0 && bad[t] == 0);
    shmem_barrier_all();
    long sum = 0;
    for (int pe = 0; pe < n_pes; pe++)
        sum += shmem_long_g(&total, pe);
    CHECK(sum == (long)TIMES * n_pes * THREADS * (THREADS + 1) / 2);
    return end_of("threads");
}
