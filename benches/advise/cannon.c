/*
 * cannon: the product of two matrices by a variant of Cannon's algorithm on bands: each PE has a
 * band of rows of A and B, multiplies with the band of B that it holds, and passes that on. 13 safe
 * points, all in main.
 */
#include "point.h"

#ifndef EDGE
#define EDGE 2048
#endif
#ifndef STRIDE
#define STRIDE 1 /* of the multiplied columns: a full product takes a while */
#endif
enum { ROWS = EDGE / PES, CELLS = ROWS * EDGE };

static double sum, total;

int main(void) {
    shmem_init();
    double *a = shmem_malloc(CELLS * sizeof(double));
    double *b = shmem_malloc(CELLS * sizeof(double));
    double *c = shmem_malloc(CELLS * sizeof(double));
    double *held = shmem_malloc(CELLS * sizeof(double));
    int me = shmem_my_pe();
    for (int i = 0; i < CELLS; i++)
        a[i] = (me * CELLS + i) % 11;
    for (int i = 0; i < CELLS; i++)
        b[i] = (me * CELLS + i) % 7;
    shmem_barrier_all();
    EACH_ROUND {
        for (int i = 0; i < CELLS; i++)
            c[i] = 0;
        for (int step = 0; step < PES; step++) {
            int of = (me + step) % PES;
            shmem_double_put(held, b, CELLS, (me + PES - step) % PES);
            shmem_barrier_all();
            for (int i = 0; i < ROWS; i++)
                for (int k = 0; k < ROWS; k++)
                    for (int j = 0; j < EDGE; j += STRIDE)
                        c[i * EDGE + j] += a[i * EDGE + of * ROWS + k] * held[k * EDGE + j];
            shmem_barrier_all();
        }
        double part = 0;
        for (int i = 0; i < CELLS; i++)
            part += c[i] * (i % 5);
        sum += part;
    }
    shmem_free(held);
    shmem_free(b);
    shmem_free(a);
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, &total, &sum, 1);
    if (me == 0)
        printf("cannon: ok checksum=%.0f\n", total);
    shmem_free(c);
    shmem_finalize();
    return 0;
}
