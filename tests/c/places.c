/*
 * places: programs that call the checkpoint at two places. Each PE prints `is right` when its
 * memory at the end equals the result of plain loops.
 *
 *     places two       while (save fails) restart, before the loop; if (save fails) continue, in it
 *     places alone     like two, without a call in the loop that waits for another PE
 *     places wrapped   one function that tries until it has saved, called before the loop and in it
 *     places halves    two checkpoints per step, and after a loss the first of them comes next
 *     places unlike    PE 0 calls from a line of its own
 *     places rewrites  only a substitute rewrites its memory before it calls again
 *     places crashes   PE 1 crashes at the same step each time
 *     places barrier   PE 0 is in a barrier, all others are in a checkpoint
 */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { STEPS = 6, WORDS = 5000, MOST = 16 };

static uint64_t words[WORDS];
static uint64_t edge;
static long step;
static int half;
static int restarts;

static void begin(int pe, uint64_t *to) {
    for (int at = 0; at < WORDS; at++)
        to[at] = mixed((uint64_t)pe + 1, (uint64_t)at);
}

static void change(uint64_t *of, uint64_t from_left, long at_step) {
    for (int at = 0; at < WORDS; at++)
        of[at] = mixed(of[at] + from_left, (uint64_t)at_step);
}

static void compute(int meets) {
    int me = shmem_my_pe(), n = shmem_n_pes();
    if (meets) {
        shmem_uint64_p(&edge, words[WORDS - 1], (me + 1) % n);
        shmem_barrier_all();
    }
    change(words, meets ? edge : 1, step);
    step++;
    if (meets)
        shmem_barrier_all();
}

/* Compares the memory with the result of plain loops. */
static int is_right(int meets) {
    uint64_t(*all)[WORDS] = malloc(MOST * sizeof *all);
    uint64_t edges[MOST];
    int me = shmem_my_pe(), n = shmem_n_pes();
    CHECK(all && n <= MOST);
    for (int pe = 0; pe < n; pe++)
        begin(pe, all[pe]);
    for (long at = 0; at < STEPS; at++) {
        for (int pe = 0; pe < n; pe++)
            edges[(pe + 1) % n] = all[pe][WORDS - 1];
        for (int pe = 0; pe < n; pe++)
            change(all[pe], meets ? edges[pe] : 1, at);
    }
    int right = memcmp(all[me], words, sizeof words) == 0 && step == STEPS;
    free(all);
    return right;
}

static void two(int meets) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        restart();
    while (step < STEPS) {
        compute(meets);
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
    }
}

static __attribute__((noinline)) void save(void) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        restart();
        restarts++;
        shmem_barrier_all();
    }
}

static void wrapped(void) {
    save();
    while (step < STEPS) {
        compute(1);
        save();
    }
}

static void halves(void) {
    while (step < STEPS) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
        if (half == 0) {
            compute(1);
            half = 1;
        }
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            if (shmem_my_pe() == 0)
                restarts++;
            continue;
        }
        half = 0;
    }
}

static void unlike(void) {
    while (step < STEPS) {
        int saved;
        if (shmem_my_pe() == 0)
            saved = shmem_checkpoint_all();
        else
            saved = shmem_checkpoint_all();
        if (saved != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
        compute(1);
    }
    shmem_barrier_all();
}

static void crashes(void) {
    while (step < STEPS) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
        if (shmem_my_pe() == 1 && step == 3)
            raise(SIGSEGV);
        compute(1);
    }
}

static void rewrites(void) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        restart();
        begin(shmem_my_pe(), words);
        step = 0;
    }
    while (step < STEPS) {
        compute(0);
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            continue;
        }
    }
}

static pid_t waiter;

/* Ends this PE once its main thread sleeps in the call that it was about to make. */
static void *end_when_asleep(void *unused) {
    char path[64], state[16];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)waiter);
    for (;;) {
        FILE *file = fopen(path, "r");
        if (file && fgets(state, sizeof state, file) && atoi(state) == 202)
            raise(SIGKILL);
        if (file)
            fclose(file);
        usleep(1000);
    }
    return unused;
}

static void barrier(void) {
    static int original;
    int me = shmem_my_pe();
    original = shmem_ft_algo_init();
    if (original) {
        CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
        if (me == 0) {
            shmem_barrier_all();
            CHECK(shmemx_ft_faulted()); /* no other PE reached it */
        } else if (me == shmem_n_pes() - 1) {
            pthread_t thread;
            waiter = getpid();
            CHECK(pthread_create(&thread, NULL, end_when_asleep, NULL) == 0);
        }
    }
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        restart();
    begin(me, words);
    while (step < STEPS)
        compute(1);
}

int main(int argc, char **argv) {
    const char *form = argc > 1 ? argv[1] : "two";
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init_thread(SHMEM_THREAD_FUNNELED, &(int){0});
    if (shmem_ft_algo_init())
        begin(shmem_my_pe(), words);
    int meets = strcmp(form, "alone") != 0 && strcmp(form, "rewrites") != 0;
    if (strcmp(form, "two") == 0 || strcmp(form, "alone") == 0)
        two(meets);
    else if (strcmp(form, "wrapped") == 0)
        wrapped();
    else if (strcmp(form, "halves") == 0)
        halves();
    else if (strcmp(form, "unlike") == 0)
        unlike();
    else if (strcmp(form, "crashes") == 0)
        crashes();
    else if (strcmp(form, "rewrites") == 0)
        rewrites();
    else
        barrier();
    CHECK(is_right(meets));
    printf("PE %d is right\n", shmem_my_pe());
    shmem_finalize();
    return 0;
}
