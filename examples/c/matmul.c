/*
 * matmul: C = A * B with whole numbers, by rows; B is read in a ring.
 *
 * Each PE holds some rows of A, B and C. In step s it fetches the rows of B of the PE s positions
 * further with a nonblocking get, and adds their contribution to its rows of C; so no two PEs read
 * the same rows in a step.
 *
 * Checked: C * x = A * (B * x) for vectors x drawn at random, modulo 2^64; a wrong C passes with a
 * probability of at most 2^-60.
 */
#include "survive.h"

enum { SIZE = 192, VECTORS = 2 };

static long steps;        /* completed: parts of B used */
static uint64_t *a, *b;   /* my rows */
static uint64_t *c;
static uint64_t *theirs;  /* rows of B of another PE */
static uint64_t *product; /* rows of B * x; each PE computes its own */

/* Rows are distributed in equal parts, the last ones perhaps shorter. */
static size_t share(void) {
    size_t n_pes = (size_t)shmem_n_pes();
    return (SIZE + n_pes - 1) / n_pes;
}

static size_t first_of(int pe) {
    size_t first = (size_t)pe * share();
    return first < SIZE ? first : SIZE;
}

static size_t rows_of(int pe) {
    return first_of(pe + 1) - first_of(pe);
}

static uint64_t element(uint64_t matrix, size_t row, size_t column) {
    return mix(matrix * SIZE * SIZE + row * SIZE + column);
}

static void set_up(void) {
    size_t bytes = share() * SIZE * sizeof *a, first = first_of(shmem_my_pe());
    a = symmetric(bytes), b = symmetric(bytes), c = symmetric(bytes), theirs = symmetric(bytes);
    product = symmetric(share() * sizeof *product);
    for (size_t row = 0; row < rows_of(shmem_my_pe()); row++)
        for (size_t column = 0; column < SIZE; column++) {
            a[row * SIZE + column] = element(1, first + row, column);
            b[row * SIZE + column] = element(2, first + row, column);
        }
    shmem_barrier_all();
}

static void step(void) {
    int pe = (shmem_my_pe() + (int)steps) % shmem_n_pes();
    size_t first = first_of(pe), rows = rows_of(pe);
    shmem_uint64_get_nbi(theirs, b, rows * SIZE, pe);
    shmem_quiet();
    for (size_t row = 0; row < rows_of(shmem_my_pe()); row++)
        for (size_t k = 0; k < rows; k++) {
            uint64_t factor = a[row * SIZE + first + k];
            for (size_t column = 0; column < SIZE; column++)
                c[row * SIZE + column] += factor * theirs[k * SIZE + column];
        }
    steps++;
}

static uint64_t dot(const uint64_t *row, uint64_t vector) {
    uint64_t sum = 0;
    for (size_t column = 0; column < SIZE; column++)
        sum += row[column] * element(3, vector, column);
    return sum;
}

/* Counts my rows for which A * (B * x) is not C * x. */
static uint64_t check(uint64_t vector) {
    size_t mine = rows_of(shmem_my_pe());
    uint64_t whole[SIZE] = {0}, wrong = 0;
    for (size_t row = 0; row < mine; row++)
        product[row] = dot(&b[row * SIZE], vector);
    shmem_barrier_all();
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        shmem_get64(whole + first_of(pe), product, rows_of(pe), pe);
    shmem_barrier_all();
    for (size_t row = 0; row < mine; row++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < SIZE; k++)
            sum += a[row * SIZE + k] * whole[k];
        wrong += sum != dot(&c[row * SIZE], vector);
    }
    return wrong;
}

static uint64_t wrong, checksum;
static long checks;

static void check_one(void) {
    uint64_t sum = 0, place = first_of(shmem_my_pe()) * SIZE;
    for (size_t i = 0; i < rows_of(shmem_my_pe()) * SIZE; i++)
        sum += part(place + i, c[i]);
    wrong += sum_of_all(check((uint64_t)checks));
    checksum = sum_of_all(sum);
    checks++;
}

int main(void) {
    shmem_init();
    while (saved(), checks < VECTORS) {
        if (!a)
            set_up();
        else if (steps < shmem_n_pes())
            step();
        else
            check_one();
    }
    return verdict("matmul", wrong, checksum);
}
