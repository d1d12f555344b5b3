/* converge: each PE takes the mean of its neighbours until the values hardly change. After a loss
 * the others may compute with zeroes until the restart, so a step only records how much changed.
 * The loop decides after a checkpoint, which succeeds only if no PE was lost in the step. */
#include "../c/survive.h"

static double value, change, largest = 1; /* the last: the largest change on any PE */
static long done;

static void step(int me, int n) {
    double left = me > 0 ? shmem_double_g(&value, me - 1) : 0;
    double right = me < n - 1 ? shmem_double_g(&value, me + 1) : 100;
    double mean = (left + right) / 2;
    shmem_barrier_all();
    change = mean > value ? mean - value : value - mean;
    value = mean;
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &largest, &change, 1);
    done++;
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    while (saved(), largest > 1e-6)
        step(me, n);
    if (me == 0)
        printf("converge: %ld steps, value %.3f\n", done, value);
    shmem_finalize();
    return 0;
}
