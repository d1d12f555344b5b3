/* Starts, meets once and ends: what a job of so many PEs costs before it does anything. */
#include <shmem.h>

int main(void) {
    shmem_init();
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
