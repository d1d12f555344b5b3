/*
 * private: registered memory of the process rolls back with a checkpoint, excluded symmetric memory
 * does not.
 */
#include "test.h"

enum { STEPS = 6, PRIVATE = 70000, SCRATCH = 1 << 20 };

static long step;
static unsigned char *scratch;

int main(void) {
    long counter = 0; /* on the stack, perhaps at another address in a substitute */
    unsigned char *buffer = calloc(1, PRIVATE);
    shmem_init();
    CHECK(shmemx_ft_register(&counter, sizeof counter) == SHMEM_FT_SUCCESS);
    CHECK(shmemx_ft_register(buffer, PRIVATE) == SHMEM_FT_SUCCESS);
    long not_symmetric;
    CHECK(shmemx_ft_exclude(&not_symmetric, sizeof not_symmetric) == SHMEM_FT_FAILURE);
    int written = 0; /* what this process last wrote to the scratch: not registered */

    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            CHECK(shmemx_ft_last_error() == NULL); /* nothing was refused: it was a death */
            CHECK(shmemx_ft_faulted());
            recover();
            CHECK(!shmemx_ft_faulted());
            if (written && scratch) /* it may predate the allocation */
                CHECK(scratch[0] == (unsigned char)written && scratch[SCRATCH - 1] == scratch[0]);
        }
        CHECK(counter == 3 * step);
        for (size_t i = 0; i < PRIVATE; i++)
            CHECK(buffer[i] == (unsigned char)(step * (long)i));
        CHECK((long)shmemx_ft_checkpoint_number() == step + 1);
        if (step == STEPS)
            break;
        if (step == 0) {
            scratch = shmem_malloc(SCRATCH);
            CHECK(scratch);
            CHECK(shmemx_ft_exclude(scratch, SCRATCH) == SHMEM_FT_SUCCESS);
        }
        step++;
        written = (int)step;
        memset(scratch, written, SCRATCH);
        counter += 3;
        for (size_t i = 0; i < PRIVATE; i++)
            buffer[i] = (unsigned char)(step * (long)i);
    }
    if (shmem_my_pe() == 0) {
        printf("private ok\n");
        fflush(stdout);
    }
    shmem_finalize();
    free(buffer);
    return 0;
}
