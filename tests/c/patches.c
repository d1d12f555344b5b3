/*
 * patches: rewrites parts of 3 of its 64 blocks of memory in each step, with a checkpoint each
 * step, until STEPS steps are done. After every restart and at the end all of it is compared with
 * the expected contents, which follow from the step.
 *
 *     patches STEPS
 */
#include "test.h"

enum { BLOCKS = 64, WORDS = 8192 };

static uint64_t *data;
static long step;

static uint64_t expected(size_t i) {
    size_t block = i / WORDS, at = i % WORDS;
    int changes = block % 22 == 5 && at >= WORDS / 4 && at < WORDS / 2;
    return mixed(mixed(shmem_my_pe() + 1, i), changes ? step : 0);
}

static void fill(void) {
    for (size_t i = 0; i < BLOCKS * WORDS; i++)
        data[i] = expected(i);
}

static void check(void) {
    for (size_t i = 0; i < BLOCKS * WORDS; i++)
        CHECK(data[i] == expected(i));
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    data = shmem_malloc(BLOCKS * WORDS * sizeof *data);
    CHECK(data && argc == 2);
    fill();
    shmem_barrier_all();
    for (;;) {
        if (!saved(check))
            continue;
        if (step >= atol(argv[1]))
            break;
        step++;
        fill();
        shmem_barrier_all();
    }
    check();
    printf("PE %d is right after %ld steps\n", shmem_my_pe(), step);
    shmem_finalize();
    return 0;
}
