/*
 * sparse: changes a few blocks of its memory in each step, none in some, all in others, its own and
 * its neighbour's, with a checkpoint each step. After every restart and at the end all of it is
 * compared with the expected contents, recomputed from scratch.
 */
#include "test.h"

enum { BLOCKS = 64, WORDS = 8192, STEPS = 14 };

static uint64_t *data;
static long step;

static size_t block(long at, int pe, int which) {
    return mixed(mixed(mixed(1, at), pe), which) % BLOCKS;
}

/* Applies what PE `pe` does to its own memory in step `at`. */
static void own(uint64_t *words, long at, int pe) {
    if (at % 7 == 0)
        for (size_t i = 0; i < BLOCKS * WORDS; i += 512)
            words[i] = mixed(words[i], at + pe);
    if (at % 5 == 0)
        return;
    for (int which = 0; which < 3; which++)
        words[block(at, pe, which) * WORDS + 16 * which + pe]++;
}

/* Returns the index of the word of its neighbour that it puts. */
static size_t put_at(long at, int pe) {
    return block(at, pe, 9) * WORDS + WORDS - 1 - pe;
}

static void check(void) {
    int me = shmem_my_pe(), left = (me + shmem_n_pes() - 1) % shmem_n_pes();
    uint64_t *model = calloc(BLOCKS * WORDS, sizeof *model);
    CHECK(model);
    for (long at = 1; at <= step; at++) {
        own(model, at, me);
        if (at % 5)
            model[put_at(at, left)] = at;
    }
    for (size_t i = 0; i < BLOCKS * WORDS; i++)
        CHECK(data[i] == model[i]);
    free(model);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    data = shmem_calloc(BLOCKS * WORDS, sizeof *data);
    CHECK(data);
    shmem_barrier_all();
    for (;;) {
        if (!saved(check))
            continue;
        if (step == STEPS)
            break;
        step++;
        own(data, step, me);
        if (step % 5)
            shmem_uint64_p(&data[put_at(step, me)], step, next);
        shmem_barrier_all();
    }
    check();
    printf("PE %d is right\n", me);
    shmem_finalize();
    return 0;
}
