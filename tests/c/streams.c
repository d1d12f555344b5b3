/* Contexts complete their own operations, and no others. Three PEs; with `apart`, each on its own
   node, where incomplete operations are visible. */
#include "test.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { N = 8, MANY = 500 };

static long data[N], word, counter;
static long pid;
static int apart;

/* Data read through a context arrives with that context's quiet, whatever other contexts do. */
static void reads(shmem_ctx_t one, shmem_ctx_t other, int pe) {
    long into[N], before = -1, more = -1;
    memset(into, 0x55, sizeof into);
    shmem_ctx_long_get_nbi(one, into, data, N, pe);
    shmem_ctx_long_atomic_fetch_add_nbi(one, &before, &counter, 1, pe);
    shmem_ctx_long_get_nbi(other, &more, &data[1], 1, pe);
    shmem_ctx_fence(other);
    shmem_ctx_quiet(other);
    shmem_quiet();
    CHECK(more == 10 * pe + 1);
    if (apart)
        CHECK(into[0] == 0x5555555555555555 && before == -1);
    shmem_ctx_quiet(one);
    for (int i = 0; i < N; i++)
        CHECK(into[i] == 10 * pe + i);
    CHECK(before >= 0 && before < MANY * shmem_n_pes());
}

/* More operations than are gathered at a time: they go out without a quiet, and all are right. */
static void many(shmem_ctx_t one, int pe) {
    static long found[MANY];
    for (int i = 0; i < MANY; i++)
        shmem_ctx_long_atomic_fetch_inc_nbi(one, &found[i], &counter, pe);
    shmem_ctx_quiet(one);
    for (int i = 0; i < MANY; i++) {
        CHECK(found[i] >= 0);
        for (int j = 0; j < i; j++)
            CHECK(found[i] != found[j]);
    }
}

/* A session for batches holds puts back until its end. */
static void session(shmem_ctx_t one, int pe) {
    long value = 77;
    shmem_ctx_session_config_t config = {.total_ops = 1};
    shmem_long_p(&word, 1, pe);
    shmem_quiet();
    shmem_ctx_session_start(one, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_long_put_nbi(one, &word, &value, 1, pe);
    CHECK(shmem_long_g(&word, pe) == (apart ? 1 : 77));
    shmem_ctx_session_stop(one);
    shmem_ctx_quiet(one);
    CHECK(shmem_long_g(&word, pe) == 77);
    shmem_ctx_session_start(one, 0, NULL, 0); /* no hint: nothing is held back */
    value = 78;
    shmem_ctx_long_put_nbi(one, &word, &value, 1, pe);
    shmem_ctx_quiet(one);
    CHECK(shmem_long_g(&word, pe) == 78);
    shmem_ctx_session_stop(one);
}

static char state_of(long process) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

/* PE 1 stands still: a context with no operations to it does not wait for it. */
static void stopped(shmem_ctx_t one, shmem_ctx_t other) {
    shmem_ctx_t reader;
    CHECK(shmem_ctx_create(SHMEM_CTX_NOSTORE, &reader) == 0);
    long process = shmem_long_g(&pid, 1);
    kill((pid_t)process, SIGSTOP);
    while (state_of(process) != 'T')
        sched_yield();
    shmem_ctx_long_p(one, &word, 5, 1);
    shmem_ctx_long_atomic_add(one, &counter, 0, 1);
    shmem_ctx_long_p(reader, &word, 5, 1);
    shmem_ctx_long_p(other, &word, 6, 2);
    shmem_ctx_fence(other);
    shmem_ctx_quiet(other);
    shmem_quiet();
    shmem_pe_quiet((int[]){2}, 1);
    shmem_ctx_fence(reader);
    shmem_ctx_quiet(reader); /* it has no stores to wait for */
    CHECK(shmem_long_g(&word, 2) == 6);
    kill((pid_t)process, SIGCONT);
    shmem_ctx_quiet(one);
    shmem_ctx_destroy(reader);
    CHECK(shmem_long_g(&word, 1) == 5);
}

/* Destroying a context completes its operations. */
static void destroyed(int pe) {
    shmem_ctx_t last;
    long into = -1;
    CHECK(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &last) == 0);
    shmem_ctx_long_get_nbi(last, &into, &data[3], 1, pe);
    shmem_ctx_destroy(last);
    CHECK(into == 10 * pe + 3);
}

int main(int argc, char **argv) {
    shmem_init();
    apart = argc > 1 && strcmp(argv[1], "apart") == 0;
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;
    for (int i = 0; i < N; i++)
        data[i] = 10 * me + i;
    pid = getpid();
    CHECK((shmem_ptr(data, next) == NULL) == apart);
    shmem_barrier_all();
    shmem_ctx_t one, other;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &one) == 0);
    CHECK(shmem_ctx_create(0, &other) == 0 && one != other);
    reads(one, other, next);
    shmem_barrier_all();
    many(one, next);
    session(one, next);
    destroyed(next);
    shmem_barrier_all();
    if (me == 0)
        stopped(one, other);
    shmem_barrier_all();
    shmem_ctx_destroy(one);
    shmem_ctx_destroy(other);
    if (me == 0)
        printf("streams: all as promised\n");
    shmem_finalize();
}
