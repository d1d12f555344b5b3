/* active_sets: the collectives from before teams, over all PEs and over every second one. */
#include "check.h"

enum { N = 4, MAX_PES = 64 };
#define LARGEST_SYNC 256

static long pSync[2][LARGEST_SYNC];
static long pWrk[N / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long source[N * MAX_PES], dest[N * MAX_PES];
static int first, log_stride, size; /* the set */

static int member(long i) {
    return first + (int)(i << log_stride);
}

static void movement(int index) {
    shmem_fcollect64(dest, source, N, first, log_stride, size, pSync[0]);
    for (long i = 0; i < N * size; i++)
        CHECK(dest[i] == 100L * member(i / N) + i % N);
    shmem_barrier(first, log_stride, size, pSync[1]);
    shmem_collect64(dest, source, (size_t)index % N + 1, first, log_stride, size, pSync[0]);
    for (long at = 0, pe = 0; pe < size; pe++)
        for (long i = 0; i <= pe % N; i++, at++)
            CHECK(dest[at] == 100L * member(pe) + i);
    shmem_barrier(first, log_stride, size, pSync[1]);
    shmem_alltoall64(dest, source, 1, first, log_stride, size, pSync[0]);
    for (long i = 0; i < size; i++)
        CHECK(dest[i] == 100L * member(i) + index);
    dest[0] = -1;
    shmem_barrier(first, log_stride, size, pSync[1]);
    shmem_broadcast64(dest, source, N, size - 1, first, log_stride, size, pSync[0]);
    for (int i = 0; i < N && index != size - 1; i++)
        CHECK(dest[i] == 100L * member(size - 1) + i);
    if (index == size - 1)
        CHECK(dest[0] == -1); /* the root's array is unchanged */
    shmem_barrier(first, log_stride, size, pSync[1]);
}

static void reductions(void) {
    long sum = 0, or = 0;
    for (int i = 0; i < size; i++)
        sum += 100L * member(i), or |= 100L * member(i);
    shmem_long_sum_to_all(dest, source, N, first, log_stride, size, pWrk, pSync[0]);
    shmem_barrier(first, log_stride, size, pSync[1]);
    for (long i = 0; i < N; i++)
        CHECK(dest[i] == sum + i * size);
    shmem_long_max_to_all(dest, source, N, first, log_stride, size, pWrk, pSync[0]);
    shmem_barrier(first, log_stride, size, pSync[1]);
    CHECK(dest[1] == 100L * member(size - 1) + 1);
    shmem_long_or_to_all(dest, source, 1, first, log_stride, size, pWrk, pSync[0]);
    CHECK(dest[0] == or);
    shmem_barrier(first, log_stride, size, pSync[1]);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes();
    if (SHMEM_REDUCE_SYNC_SIZE > LARGEST_SYNC || SHMEM_COLLECT_SYNC_SIZE > LARGEST_SYNC)
        shmem_global_exit(2);
    for (int i = 0; i < LARGEST_SYNC; i++)
        pSync[0][i] = pSync[1][i] = SHMEM_SYNC_VALUE;
    for (int i = 0; i < N * MAX_PES; i++)
        source[i] = 100L * me + i;
    shmem_barrier_all();
    for (log_stride = 0; log_stride < 2; log_stride++) {
        first = 0, size = (n_pes + log_stride) >> log_stride;
        if (me % (1 << log_stride) == 0) {
            movement(me >> log_stride);
            reductions();
            shmem_sync(first, log_stride, size, pSync[1]);
        }
        shmem_barrier_all();
    }
    return end_of("active_sets");
}
