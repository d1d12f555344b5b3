/*
 * get_status: PE 1 dies while PE 0 reads from it again and again, and the status reports the death.
 *
 * A get that succeeds returns the PE's data. After the death every get fails, on every PE, and
 * returns zeros; after the restart gets succeed again.
 */
#include "test.h"

#include <signal.h>

enum { STEPS = 4, DEATH = 2, WORDS = 1000 };

static long step;
static long words[WORDS];

/* Reads all words of a PE, which are equal. */
static int read_all(long *into, int pe) {
    memset(into, 0xff, sizeof words);
    return shmemx_ft_get(into, words, sizeof words, pe);
}

static void read_until_the_death(void) {
    static long got[WORDS];
    long reads = 0;
    while (read_all(got, 1) == SHMEM_FT_SUCCESS)
        for (long i = 0, all = ++reads; i < WORDS && all; i++)
            CHECK(got[i] == step);
    CHECK(shmemx_ft_faulted());
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        CHECK(read_all(got, pe) == SHMEM_FT_FAILURE);
        for (int i = 0; i < WORDS; i++)
            CHECK(got[i] == 0);
    }
    printf("PE 0 learns that a get failed\n");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    int me = shmem_my_pe(), died = 0; /* on the stack: in no checkpoint */
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (step == STEPS)
            break;
        step++;
        for (int i = 0; i < WORDS; i++)
            words[i] = step;
        shmem_barrier_all();
        static long got[WORDS];
        if (step == DEATH && me == 1 && shmem_ft_algo_init())
            raise(SIGKILL);
        if (step == DEATH && me == 0 && !died++)
            read_until_the_death();
        if (!shmemx_ft_faulted() && read_all(got, (me + 1) % shmem_n_pes()) == SHMEM_FT_SUCCESS)
            CHECK(got[0] == step && got[WORDS - 1] == step);
        shmem_barrier_all();
    }
    printf("PE %d is at the end\n", me);
    shmem_finalize();
    return 0;
}
