/* Starts, meets once and ends: the fixed cost of a job. */
#include <shmem.h>

int main(void) {
    shmem_init();
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
