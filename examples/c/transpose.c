/*
 * transpose: a matrix of blocks, transposed again and again.
 *
 * Each PE holds a band of rows. A transposition transposes the small block for each PE in place and
 * puts it to its destination with one strided put per row: block (i, j) becomes block (j, i). Then
 * all elements are multiplied by an odd number and shifted by their position, so that no two rounds
 * are alike.
 *
 * Checked: every element equals the result of the same steps applied to it alone.
 */
#include "survive.h"

enum { EDGE = 48, ROUNDS = 7 };

static long rounds;      /* done */
static int current;      /* the band that holds the matrix */
static uint64_t *band[2];

/* Returns the size of the whole matrix, which is square. */
static size_t size(void) {
    return (size_t)EDGE * (size_t)shmem_n_pes();
}

static uint64_t initial(size_t row, size_t column) {
    return mix(row * 1000003u + column);
}

static uint64_t stirred(uint64_t value, size_t row, size_t column) {
    return value * 0x2545f4914f6cdd1du + row * size() + column;
}

static void set_up(void) {
    size_t first = (size_t)shmem_my_pe() * EDGE;
    for (int i = 0; i < 2; i++)
        band[i] = symmetric(EDGE * size() * sizeof **band);
    for (size_t row = 0; row < EDGE; row++)
        for (size_t column = 0; column < size(); column++)
            band[0][row * size() + column] = initial(first + row, column);
}

/* My row r is column r of my block on each PE: elements `size` apart there. */
static void step(void) {
    int me = shmem_my_pe(), n_pes = shmem_n_pes();
    uint64_t *from = band[current], *to = band[!current];
    ptrdiff_t apart = (ptrdiff_t)size();
    shmem_barrier_all();
    for (int i = 0; i < n_pes; i++) {
        int pe = (me + i) % n_pes;
        for (size_t row = 0; row < EDGE; row++)
            shmem_uint64_iput(to + (size_t)me * EDGE + row, from + row * size() + (size_t)pe * EDGE,
                              apart, 1, EDGE, pe);
    }
    shmem_barrier_all();
    size_t first = (size_t)me * EDGE;
    for (size_t row = 0; row < EDGE; row++)
        for (size_t column = 0; column < size(); column++) {
            uint64_t *at = &to[row * size() + column];
            *at = stirred(*at, first + row, column);
        }
    current = !current;
    rounds++;
}

/* Computes the final value of an element from its initial position. */
static uint64_t expected(size_t row, size_t column) {
    int turned = ROUNDS % 2;
    size_t r = turned ? column : row, c = turned ? row : column;
    uint64_t value = initial(r, c);
    for (int i = 0; i < ROUNDS; i++) {
        size_t swap = r;
        r = c, c = swap;
        value = stirred(value, r, c);
    }
    return value;
}

static uint64_t wrong, checksum;
static int checked;

static void check(void) {
    uint64_t bad = 0, sum = 0;
    size_t first = (size_t)shmem_my_pe() * EDGE;
    for (size_t row = 0; row < EDGE; row++)
        for (size_t column = 0; column < size(); column++) {
            uint64_t value = band[current][row * size() + column];
            bad += value != expected(first + row, column);
            sum += part((first + row) * size() + column, value);
        }
    wrong = sum_of_all(bad);
    checksum = sum_of_all(sum);
    checked = 1;
}

int main(void) {
    shmem_init();
    while (saved(), !checked) {
        if (!band[0])
            set_up();
        else if (rounds < ROUNDS)
            step();
        else
            check();
    }
    return verdict("transpose", wrong, checksum);
}
