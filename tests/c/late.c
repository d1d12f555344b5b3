/*
 * late: takes a checkpoint, continues a little in the way that its argument names, and ends. The
 * first process of PE 2 dies on the way by SIGKILL, when it has done its part.
 *
 * silent   it needs no other PE; before its end the substitute uses its own memory, and passes
 *          barriers
 * consume  a barrier brings it the data that PE 0 has put since the checkpoint
 * await    it waits for data that PE 0 has put
 * produce  it puts to PE 0
 * cut      the others wait in a barrier that it does not reach
 * fetch    the others read its data, after its death
 */
#include "test.h"

#include <signal.h>

static long box, own;

static void die(void) {
    if (shmem_my_pe() == 2 && shmem_ft_algo_init())
        raise(SIGKILL);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "silent";
    shmem_init();
    int me = shmem_my_pe();
    if (shmem_ft_algo_init())
        box = own = 100 + me;
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        recover();
    if (!strcmp(how, "silent")) {
        die();
        if (!shmem_ft_algo_init()) {
            shmem_long_atomic_add(&own, shmem_long_g(&own, me), me);
            shmem_sync_all();
            void *block = shmem_malloc(1000); /* it contains a barrier */
            CHECK(block && own == 2 * (100 + me));
            shmem_free(block);
        }
    } else if (!strcmp(how, "consume") || !strcmp(how, "await")) {
        if (me == 0)
            shmem_long_p(&box, 42, 2);
        if (!strcmp(how, "consume"))
            shmem_barrier_all();
        else if (me == 2)
            shmem_long_wait_until(&box, SHMEM_CMP_EQ, 42);
        die();
        CHECK(me != 2 || box == 42);
    } else if (!strcmp(how, "produce")) {
        if (me == 2)
            shmem_long_p(&box, 42, 0);
        die();
    } else if (!strcmp(how, "cut")) {
        die();
        shmem_barrier_all();
    } else if (!strcmp(how, "fetch")) {
        die();
        /* Until the death is known a get returns all of its data, or none. */
        while (me != 2 && !shmemx_ft_faulted())
            ;
        own = me == 2 ? box : shmem_long_g(&box, 2);
    }
    printf("PE %d ends with %ld, %ld\n", me, box, own);
    return 0;
}
