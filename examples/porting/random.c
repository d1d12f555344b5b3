/* random: pi from random points. The state of the generator is a static variable, so it rolls back
 * with the count of the points. rand, random and drand48 keep theirs in libc, where no checkpoint
 * holds it. */
#include "../c/survive.h"

enum { STEPS = 20, POINTS = 20000 };

static unsigned short state[3];
static uint64_t inside;
static long done;

static void step(void) {
    for (int i = 0; i < POINTS; i++) {
        double x = erand48(state), y = erand48(state);
        inside += x * x + y * y < 1;
    }
    done++;
}

int main(void) {
    shmem_init();
    state[0] = (unsigned short)shmem_my_pe(); /* a substitute gets the state of the checkpoint */
    while (saved(), done < STEPS)
        step();
    uint64_t all = sum_of_all(inside);
    if (shmem_my_pe() == 0)
        printf("random: pi is about %.6f\n", 4.0 * (double)all / STEPS / POINTS / shmem_n_pes());
    shmem_finalize();
    return 0;
}
