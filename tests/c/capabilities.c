/*
 * capabilities: memory of every kind and calls of every kind, for any combination of settings. All
 * memory has a closed form, which every PE compares after each checkpoint and each restart.
 *
 *     capabilities HOW PE STEP WORD ...
 *
 * The original of that PE kills itself in that step (HOW: process) or its agent, with which its
 * node ends (node), or nobody does (none). Step 0 is before the first checkpoint. The words are the
 * kinds of memory that there are besides cells: readonly, private, excluded.
 */
#include "test.h"

#include <signal.h>
#include <unistd.h>

enum { STEPS = 7, CELLS = 48 * 1024, PART = 8, TABLE = 64 * 1024, PRIVATE = 5000, HALO = 600 };

/* The step that memory belongs to, and what is summed over steps. */
static long step, tickets, counter, guarded, lock, in, all, whole;
static uint64_t halo[HALO], *cells, *table, *scratch;
static int me, n;

/* A cell is written in one of PART steps. */
static uint64_t cell(int pe, long of_step, size_t at) {
    long late = (of_step - (long)(at % PART)) % PART;
    long last = of_step - (late + PART) % PART;
    return mixed((uint64_t)pe << 40 | (uint64_t)(last > 0 ? last : 0), at);
}

static void compare(const uint64_t *own) {
    int left = (me + n - 1) % n;
    for (size_t at = 0; at < CELLS; at++)
        CHECK(cells[at] == cell(me, step, at));
    for (size_t at = 0; at < HALO && step > 0; at++)
        CHECK(halo[at] == cell(left, step, at));
    for (size_t at = 0; table && at < TABLE; at++)
        CHECK(table[at] == mixed((uint64_t)me, at));
    for (size_t at = 0; own && at < PRIVATE; at++)
        CHECK(own[at] == (uint64_t)step * at + (uint64_t)me);
    long drawn = n * step; /* by all PEs */
    CHECK(all == drawn * (drawn - 1) / 2);
    CHECK(whole == drawn);
    CHECK(me != 0 || (counter == drawn && guarded == drawn));
}

/* Does a step; this process may die in it. */
static void work(uint64_t *own, pid_t victim) {
    int right = (me + 1) % n;
    for (size_t at = 0; at < CELLS; at++)
        if (at % PART == (size_t)step % PART)
            cells[at] = cell(me, step, at);
    for (size_t at = 0; scratch && at < PRIVATE; at++)
        scratch[at] = (uint64_t)step * at;
    shmem_putmem(halo, cells, sizeof halo, right);
    tickets += shmem_long_atomic_fetch_inc(&counter, 0);
    shmem_set_lock(&lock);
    long had = shmem_long_g(&guarded, 0);
    shmem_long_p(&guarded, had + 1, 0);
    shmem_quiet();
    shmem_clear_lock(&lock);
    in = tickets;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &all, &in, 1);
    shmem_barrier_all();
    if (victim)
        kill(victim, SIGKILL), pause();
    whole = shmem_long_g(&guarded, 0);
    for (size_t at = 0; own && at < PRIVATE; at++)
        own[at] += scratch ? scratch[at] / (uint64_t)step : at;
}

int main(int argc, char **argv) {
    shmem_init();
    CHECK(argc >= 4);
    me = shmem_my_pe(), n = shmem_n_pes();
    uint64_t *own = NULL; /* no checkpoint has this address, which differs in a substitute */
    int original = shmem_ft_algo_init();
    long dies_in = atoi(argv[2]) == me && original ? atol(argv[3]) : -1;
    pid_t victim = !strcmp(argv[1], "process") ? getpid() : 0;
    if (!strcmp(argv[1], "node"))
        victim = getppid();
    cells = shmem_malloc(CELLS * sizeof *cells);
    for (size_t at = 0; at < CELLS; at++)
        cells[at] = cell(me, 0, at);
    for (int i = 4; i < argc; i++) {
        if (!strcmp(argv[i], "readonly")) {
            table = shmem_malloc(TABLE * sizeof *table);
            for (size_t at = 0; at < TABLE; at++)
                table[at] = mixed((uint64_t)me, at);
            shmemx_ft_readonly(table, TABLE * sizeof *table);
        } else if (!strcmp(argv[i], "private")) {
            own = malloc(PRIVATE * sizeof *own);
            for (size_t at = 0; at < PRIVATE; at++)
                own[at] = (uint64_t)me;
            CHECK(shmemx_ft_protect("own", own, PRIVATE * sizeof *own) == SHMEM_FT_SUCCESS);
        } else {
            CHECK(!strcmp(argv[i], "excluded"));
            scratch = shmem_malloc(PRIVATE * sizeof *scratch);
            CHECK(shmemx_ft_exclude(scratch, PRIVATE * sizeof *scratch) == SHMEM_FT_SUCCESS);
        }
    }
    for (long first = 1;; first = 0) {
        if (first && victim && dies_in == 0)
            kill(victim, SIGKILL), pause();
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
        compare(own);
        shmem_barrier_all(); /* no PE puts into what a neighbour still compares */
        if (step == STEPS)
            break;
        step++;
        work(own, dies_in == step ? victim : 0);
        usleep(2000); /* so that an interval passes */
    }
    if (me == 0)
        printf("capabilities: as they should be\n");
    shmemx_ft_flush();
    shmem_finalize();
    return 0;
}
