/*
 * mandelbrot: free PEs take rows from a counter on PE 0 (work stealing by atomics).
 *
 * Row times differ by orders of magnitude, so rows are not distributed in advance: each PE takes
 * the next number from the counter, computes the row and puts it into the picture on PE 0. Between
 * two checkpoints a PE takes at most BATCH rows.
 *
 * Checked: each PE recomputes some rows and compares them with the picture; no row is missing.
 */
#include "survive.h"

enum { WIDTH = 160, HEIGHT = 120, DEEPEST = 400, BATCH = 6 };

static long next_row;    /* on PE 0: the next free row */
static long batches;     /* completed, by all PEs */
static long computed;    /* rows this PE computed */
static uint16_t *picture; /* on PE 0: iterations of each point, plus one */

static void compute(uint16_t *row, long y) {
    for (int x = 0; x < WIDTH; x++) {
        double re = -2.2 + 3.2 * x / WIDTH, im = -1.2 + 2.4 * (double)y / HEIGHT, a = 0, b = 0;
        int n = 0;
        while (n < DEEPEST && a * a + b * b < 4.0) {
            double next = a * a - b * b + re;
            b = 2 * a * b + im;
            a = next;
            n++;
        }
        row[x] = (uint16_t)(n + 1);
    }
}

static void step(void) {
    uint16_t row[WIDTH];
    for (int i = 0; i < BATCH; i++) {
        long y = shmem_long_atomic_fetch_inc(&next_row, 0);
        if (y >= HEIGHT)
            break;
        compute(row, y);
        shmem_put16(picture + y * WIDTH, row, WIDTH, 0);
        computed++;
    }
    batches++;
}

/* Counts the rows that this PE found to be wrong. */
static uint64_t check(void) {
    uint16_t there[WIDTH], right[WIDTH];
    uint64_t wrong = 0;
    for (long y = shmem_my_pe(); y < HEIGHT; y += shmem_n_pes()) {
        int bad = 0;
        shmem_get16(there, picture + y * WIDTH, WIDTH, 0);
        compute(right, y);
        for (int x = 0; x < WIDTH; x++)
            bad |= there[x] != right[x];
        wrong += (uint64_t)bad;
    }
    return wrong;
}

static uint64_t wrong, checksum;
static int checked;

static void check_all(void) {
    uint64_t sum = 0;
    for (size_t i = 0; shmem_my_pe() == 0 && i < WIDTH * HEIGHT; i++)
        sum += part(i, picture[i]);
    wrong = sum_of_all(check()) + (sum_of_all((uint64_t)computed) != HEIGHT);
    checksum = sum_of_all(sum);
    checked = 1;
}

int main(void) {
    shmem_init();
    while (saved(), !checked) {
        if (!picture)
            picture = symmetric(WIDTH * HEIGHT * sizeof *picture);
        else if (batches * BATCH * shmem_n_pes() < HEIGHT)
            step();
        else
            check_all();
    }
    return verdict("mandelbrot", wrong, checksum);
}
