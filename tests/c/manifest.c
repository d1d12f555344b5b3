/*
 * manifest: PE 2 registers more private memory than the manifest can describe.
 *
 * All checkpoints are refused and no PE can undo it, so the PEs end without another checkpoint.
 */
#include "test.h"

enum { TOO_MUCH = 64 << 20 };

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    char *block = calloc(1, TOO_MUCH);
    if (shmem_my_pe() == 2)
        CHECK(shmemx_ft_register(block, TOO_MUCH) == SHMEM_FT_SUCCESS);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_FAILURE);
    CHECK(!shmemx_ft_faulted() && shmemx_ft_checkpoint_number() == 1);
    printf("PE %d is refused: %s\n", shmem_my_pe(), shmemx_ft_last_error());
    shmem_finalize();
    free(block);
    return 0;
}
