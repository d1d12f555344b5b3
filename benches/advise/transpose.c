/*
 * transpose: a matrix by blocks. Each PE has a band of rows; it transposes its blocks in place and
 * puts each to the PE that owns its new rows. 13 safe points: 7 in main, 6 in transpose2d.
 */
#include "point.h"

#ifndef EDGE
#define EDGE 2048
#endif
enum { ROWS = EDGE / PES, CELLS = ROWS * EDGE };

static double sum, total;

static void transpose2d(double *to, double *from) {
    double *turned = shmem_malloc(CELLS * sizeof(double));
    int me = shmem_my_pe();
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < EDGE; j++)
            turned[i * EDGE + j] = from[(j % ROWS) * EDGE + j / ROWS * ROWS + i];
    shmem_barrier_all();
    for (int pe = 0; pe < PES; pe++)
        for (int i = 0; i < ROWS; i++)
            shmem_double_put(to + i * EDGE + me * ROWS, turned + i * EDGE + pe * ROWS, ROWS, pe);
    shmem_barrier_all();
    double part = 0;
    for (int i = 0; i < CELLS; i++)
        part += to[i];
    sum = part;
    shmem_barrier_all();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, &total, &sum, 1);
    shmem_barrier_all();
    shmem_free(turned);
}

int main(void) {
    shmem_init();
    double *matrix = shmem_malloc(CELLS * sizeof(double));
    double *image = shmem_malloc(CELLS * sizeof(double));
    int me = shmem_my_pe();
    for (int i = 0; i < CELLS; i++)
        matrix[i] = (me * CELLS + i) % 1009;
    shmem_barrier_all();
    EACH_ROUND {
        transpose2d(image, matrix);
        for (int i = 0; i < CELLS; i++)
            matrix[i] = image[i] * 3 - me;
    }
    shmem_free(image);
    if (me == 0)
        printf("transpose: ok checksum=%.0f\n", total);
    shmem_free(matrix);
    shmem_finalize();
    return 0;
}
