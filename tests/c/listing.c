/*
 * listing: the thesis' listing 4.1 as printed, including the address of numpes in its line 14. That
 * is a warning in C and, as a number, far more PEs than there are.
 */
#include <shmem.h>
#include <stdlib.h>

#define MAX_STEP 6

/* User algorithm states as global variables */
int step;

int main(int argc, const char *argv[]) {
    (void)argc, (void)argv;
    start_pes(0);
    if (shmem_ft_algo_init()) {
        step = 0;
    }
    do {
        if (SHMEM_FT_SUCCESS != shmem_checkpoint_all()) {
            int *pes, *pes_status;
            size_t numpes;
            shmem_query_fault(&pes, &pes_status, &numpes);
            shmem_restart_pes(pes, NUMPES);
            shmem_barrier_all();
            free(pes);
            free(pes_status);
        } else {
            step++;
        }
    } while (step < MAX_STEP);
    return step == MAX_STEP ? 0 : 9;
}
