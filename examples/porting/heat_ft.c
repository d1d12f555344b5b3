/* heat: a plate with a hot edge warms up. Each PE has some of its rows, and puts the first and the
 * last of them to its neighbours before each step. */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 512, ROWS = 128, STEPS = 2000 };

static double (*plate)[WIDTH], (*next)[WIDTH]; /* ROWS of the plate, and one above and below */

static int done; /* steps; static, so that every checkpoint has it */

static int saved(void) {
    int *pes, *status;
    size_t lost;
    if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS)
        return 1;
    shmem_query_fault(&pes, &status, &lost);
    shmem_restart_pes(pes, lost); /* all PEs have the last checkpoint again */
    shmem_barrier_all();
    free(pes), free(status);
    return 0;
}

static void exchange(int me, int n) {
    if (me > 0)
        shmem_double_put(plate[ROWS + 1], plate[1], WIDTH, me - 1);
    if (me < n - 1)
        shmem_double_put(plate[0], plate[ROWS], WIDTH, me + 1);
    shmem_barrier_all();
}

static void step(int first, int last) {
    for (int y = 1; y <= ROWS; y++)
        for (int x = 1; x < WIDTH - 1; x++)
            if (!(first && y == 1) && !(last && y == ROWS))
                next[y][x] = 0.25 * (plate[y - 1][x] + plate[y + 1][x] + plate[y][x - 1] +
                                     plate[y][x + 1]);
    double(*swap)[WIDTH] = plate;
    plate = next, next = swap;
    shmem_barrier_all();
}

static void prepare(void) {
    plate = shmem_calloc(ROWS + 2, sizeof *plate);
    next = shmem_calloc(ROWS + 2, sizeof *next);
    for (int y = 0; y < ROWS + 2; y++)
        plate[y][0] = next[y][0] = 100;
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    if (shmem_ft_algo_init()) /* not in a substitute: its memory comes from the checkpoint */
        prepare();

    for (;;) {
        if (done % 100 == 0 && !saved())
            continue;
        if (done == STEPS)
            break;
        exchange(me, n);
        step(me == 0, me == n - 1);
        done++;
    }

    double warmth = 0;
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < WIDTH; x++)
            warmth += plate[y][x];
    printf("PE %d: warmth %.6f\n", me, warmth);
    shmem_finalize();
    return 0;
}
