/* main: a program that survives, and uses the library tally. */
#include "tally.h"
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>

static long done; /* static in an executable: every checkpoint has it */

int main(void) {
    shmem_init();
    tally_init();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *status;
            size_t n;
            shmem_query_fault(&pes, &status, &n);
            shmem_restart_pes(pes, n);
            shmem_barrier_all();
            free(pes), free(status);
            continue;
        }
        if (done == 20)
            break;
        tally_add(done++);
        shmem_barrier_all();
    }
    if (shmem_my_pe() == 0)
        printf("total %ld, %ld calls of each PE\n", tally_total(), tally_calls());
    shmem_finalize();
    return 0;
}
