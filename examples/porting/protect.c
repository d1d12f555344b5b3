/* protect: random walks whose state is private: a counter on the stack, and memory from calloc.
 * shmemx_ft_protect adds both to the checkpoints, under names by which a substitute finds them. */
#include "../c/survive.h"

enum { STEPS = 20, WALKERS = 1000 };

struct walker {
    long x, y;
};

static void step(struct walker *walkers, long done, int me) {
    for (int i = 0; i < WALKERS; i++) {
        uint64_t drawn = mix((uint64_t)((done * WALKERS + i) * 64 + me));
        long way = drawn & 1 ? 1 : -1;
        if (drawn & 2)
            walkers[i].x += way;
        else
            walkers[i].y += way;
    }
}

int main(void) {
    shmem_init();
    long done = 0;
    struct walker *walkers = calloc(WALKERS, sizeof *walkers); /* the pointer is not static */
    /* In every process, a substitute too, before its first checkpoint. */
    shmemx_ft_protect("protect.done", &done, sizeof done);
    shmemx_ft_protect("protect.walkers", walkers, WALKERS * sizeof *walkers);

    while (saved(), done < STEPS)
        step(walkers, done++, shmem_my_pe());

    uint64_t squares = 0;
    for (int i = 0; i < WALKERS; i++)
        squares += (uint64_t)(walkers[i].x * walkers[i].x + walkers[i].y * walkers[i].y);
    squares = sum_of_all(squares);
    if (shmem_my_pe() == 0)
        printf("protect: squares of distances %llu\n", (unsigned long long)squares);
    shmem_finalize();
    return 0;
}
