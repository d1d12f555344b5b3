/* rest: the functions without a type: setup, memory, teams, contexts, ordering, locks, signals. */
#include "common.h"

#define WHAT "rest"

void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);

static long word, lock;
static uint64_t signal_word;

static void setup(void) {
    int initialized = 0, level = -1, major = 0, minor = 0;
    char name[SHMEM_MAX_NAME_LEN];
    shmem_query_initialized(&initialized);
    EXPECT(initialized == 1);
    shmem_query_thread(&level);
    EXPECT(level == SHMEM_THREAD_SERIALIZED);
    EXPECT(_my_pe() == me && _num_pes() == n_pes);
    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    EXPECT(major == 1 && minor == 6 && !strcmp(name, SHMEM_VENDOR_STRING));
    EXPECT(shmem_pe_accessible(n_pes - 1) && !shmem_pe_accessible(n_pes));
    EXPECT(shmem_addr_accessible(&word, next) && !shmem_addr_accessible(name, next));
    EXPECT(shmem_ptr(&word, me) == &word && shmem_ptr(name, me) == NULL);
    shmem_pcontrol(1);
    shmem_pcontrol(2, name, 3);
}

static void memory(void) {
    char *blocks[] = {shmem_malloc(100),    shmem_calloc(25, 4), shmem_align(256, 100),
                      shmem_malloc_with_hints(100, SHMEM_MALLOC_SIGNAL_REMOTE),
                      shmalloc(100),        shmemalign(256, 100)};
    enum { BLOCKS = sizeof blocks / sizeof *blocks };
    EXPECT((uintptr_t)blocks[2] % 256 == 0 && (uintptr_t)blocks[5] % 256 == 0);
    for (int b = 0; b < BLOCKS; b++) {
        EXPECT(blocks[b] != NULL);
        shmem_putmem(blocks[b], (char[]){(char)(10 * me + b)}, 1, next);
    }
    shmem_barrier_all();
    for (int b = 0; b < BLOCKS; b++)
        EXPECT(blocks[b][0] == 10 * prev + b);
    blocks[0] = shmem_realloc(blocks[0], 5000);
    blocks[1] = shrealloc(blocks[1], 50);
    EXPECT(blocks[0][0] == 10 * prev && blocks[1][0] == 10 * prev + 1);
    for (int b = 0; b < BLOCKS; b++)
        (b % 2 ? shfree : shmem_free)(blocks[b]);
}

static void teams_and_contexts(void) {
    shmem_team_t row, column, whose = SHMEM_TEAM_INVALID;
    shmem_team_config_t config = {.num_contexts = 2}, back = {0};
    shmem_ctx_t ctx, own;
    EXPECT(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, &config, SHMEM_TEAM_NUM_CONTEXTS, &row, NULL,
                               0, &column) == 0);
    EXPECT(shmem_team_get_config(row, SHMEM_TEAM_NUM_CONTEXTS, &back) == 0);
    EXPECT(back.num_contexts == 2);
    EXPECT(shmem_team_my_pe(row) == me % 2 && shmem_team_my_pe(column) == me / 2);
    EXPECT(shmem_team_n_pes(column) == (n_pes + 1 - me % 2) / 2);
    EXPECT(shmem_team_translate_pe(column, 0, SHMEM_TEAM_WORLD) == me % 2);
    EXPECT(shmem_team_ptr(row, &word, shmem_team_my_pe(row)) == &word);
    EXPECT(shmem_team_sync(row) == 0);
    EXPECT(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &own) == 0);
    EXPECT(shmem_team_create_ctx(column, SHMEM_CTX_PRIVATE, &ctx) == 0);
    EXPECT(shmem_ctx_get_team(ctx, &whose) == 0 && whose == column);
    shmem_ctx_session_config_t session = {.total_ops = 1};
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &session, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_long_p(ctx, &word, 5, 0); /* to the first of the column */
    shmem_ctx_session_stop(ctx);
    shmem_ctx_fence(ctx), shmem_ctx_quiet(ctx);
    shmem_ctx_pe_quiet(ctx, (int[]){0}, 1);
    shmem_fence(), shmem_quiet(), shmem_pe_quiet(&next, 1);
    shmem_sync_all();
    EXPECT(me >= 2 || word == 5);
    shmem_ctx_signal_set(ctx, &signal_word, 20, shmem_team_my_pe(column));
    shmem_ctx_signal_add(own, &signal_word, 1, me);
    (shmem_signal_add)(&signal_word, 1, me);
    EXPECT(shmem_signal_fetch(&signal_word) == 22);
    (shmem_signal_set)(&signal_word, 1, me);
    EXPECT(shmem_signal_wait_until(&signal_word, SHMEM_CMP_NE, 22) == 1);
    shmem_ctx_destroy(ctx);
    shmem_ctx_destroy(own);
    shmem_team_destroy(row);
    shmem_team_destroy(column);
}

static void locks(void) {
    static long counter;
    for (int i = 0; i < 50; i++) {
        if (i % 2)
            shmem_set_lock(&lock);
        else
            while (shmem_test_lock(&lock))
                ;
        shmem_long_p(&counter, shmem_long_g(&counter, 0) + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    EXPECT(shmem_long_g(&counter, 0) == 50L * n_pes);
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    int provided = -1;
    if (argc > 1) { /* ends in the middle, with this status */
        start_pes(0);
        shmem_barrier_all();
        if (shmem_my_pe() == shmem_n_pes() - 1)
            shmem_global_exit(atoi(argv[1]));
        for (;;)
            shmem_barrier_all();
    }
    shmem_init_thread(SHMEM_THREAD_SERIALIZED, &provided);
    begin();
    EXPECT(provided == SHMEM_THREAD_SERIALIZED);
    setup();
    memory();
    teams_and_contexts();
    locks();
    int failed = end("rest");
    shmem_finalize(); /* as often as it was initialised */
    return failed;
}
