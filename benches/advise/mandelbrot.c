/*
 * mandelbrot: a grey picture of the set, a band of it on each PE. 7 safe points: 2 in main, 5 in
 * draw_mandelbrot.
 */
#include "point.h"

#ifndef EDGE
#define EDGE 3200
#endif
#ifndef DEEPEST
#define DEEPEST 40
#endif
enum { ROWS = EDGE / PES, CELLS = ROWS * EDGE };

static long sum, total;

static int depth(double x, double y) {
    double re = 0, im = 0;
    int n = 0;
    for (; n < DEEPEST && re * re + im * im < 4; n++) {
        double next = re * re - im * im + x;
        im = 2 * re * im + y;
        re = next;
    }
    return n;
}

static void draw_mandelbrot(void) {
    unsigned char *picture = shmem_malloc(CELLS);
    int *deep = shmem_malloc(CELLS * sizeof(int));
    int me = shmem_my_pe();
    EACH_ROUND {
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < EDGE; j++)
                deep[i * EDGE + j] =
                    depth(j * 3.0 / EDGE - 2, (me * ROWS + i) * 2.0 / EDGE - 1);
        for (int i = 0; i < CELLS; i++)
            picture[i] = (unsigned char)(255 - deep[i] * 255 / DEEPEST);
        shmem_barrier_all();
        long part = 0;
        for (int i = 0; i < CELLS; i++)
            part += picture[i];
        sum += part;
    }
    shmem_free(deep);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &total, &sum, 1);
    if (me == 0)
        printf("mandelbrot: ok checksum=%ld\n", total);
    shmem_free(picture);
}

int main(void) {
    shmem_init();
    draw_mandelbrot();
    shmem_finalize();
    return 0;
}
