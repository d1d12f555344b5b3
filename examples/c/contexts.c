/* contexts: streams of operations that complete independently, and sessions. */
#include "check.h"

enum { STREAMS = 3, N = 64 };
static long inbox[STREAMS][N];
static long counter;

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes(), next = (me + 1) % n_pes;
    int prev = (me + n_pes - 1) % n_pes;
    long options[STREAMS] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE};
    long out[STREAMS][N], got[N] = {0};
    shmem_ctx_t ctx[STREAMS];
    for (int s = 0; s < STREAMS; s++)
        CHECK(shmem_ctx_create(options[s], &ctx[s]) == 0 && ctx[s] != SHMEM_CTX_INVALID);
    for (int s = 0; s < STREAMS; s++) {
        for (int i = 0; i < N; i++)
            out[s][i] = 1000 * s + 10 * i + me;
        shmem_ctx_long_put_nbi(ctx[s], inbox[s], out[s], N, next);
        shmem_ctx_fence(ctx[s]);
        shmem_ctx_long_atomic_inc(ctx[s], &counter, next);
    }
    for (int s = 0; s < STREAMS; s++)
        shmem_ctx_quiet(ctx[s]);
    shmem_long_wait_until(&counter, SHMEM_CMP_EQ, STREAMS);
    for (int s = 0; s < STREAMS; s++)
        for (int i = 0; i < N; i++)
            CHECK(inbox[s][i] == 1000 * s + 10 * i + prev);
    shmem_barrier_all();

    shmem_ctx_session_config_t config = {.total_ops = N};
    shmem_ctx_session_start(ctx[0], SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
    for (int i = 0; i < N; i++)
        shmem_ctx_long_get_nbi(ctx[0], &got[i], &inbox[1][i], 1, next);
    shmem_ctx_session_stop(ctx[0]);
    shmem_ctx_pe_quiet(ctx[0], &next, 1);
    shmem_pe_quiet(&next, 1);
    for (int i = 0; i < N; i++)
        CHECK(got[i] == out[1][i]);
    for (int s = 0; s < STREAMS; s++)
        shmem_ctx_destroy(ctx[s]);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    return end_of("contexts");
}
