/* libc_random: numbers of random(), with the state of libc kept over a rollback. initstate makes
 * libc use a static array, which the checkpoints hold; setstate to another array completes it, and
 * setstate back continues from what it holds. rand() shares this state. */
#include "../c/survive.h"

enum { STEPS = 20, DRAWS = 1000 };

static int32_t kept[32]; /* the state that the steps draw from */
static int32_t idle[32]; /* one that no number is drawn from */
static uint64_t drawn;   /* depends on every number, and on their order */
static long done;

static void step(void) {
    for (int i = 0; i < DRAWS; i++)
        drawn = mix(drawn ^ (uint64_t)random());
    done++;
}

/* Like saved(), with the state of random(). */
static void saved_with_state(void) {
    setstate((char *)idle); /* writes the position of the generator into `kept` */
    saved();
    setstate((char *)kept); /* reads it, after a restart that of the checkpoint */
}

int main(void) {
    shmem_init();
    initstate(1, (char *)idle, sizeof idle);
    initstate(1 + (unsigned)shmem_my_pe(), (char *)kept, sizeof kept);
    while (saved_with_state(), done < STEPS)
        step();
    uint64_t all = sum_of_all(drawn);
    if (shmem_my_pe() == 0)
        printf("libc_random: %ld steps, checksum %016llx\n", done, (unsigned long long)all);
    shmem_finalize();
    return 0;
}
