/*
 * cg: conjugate gradients for A x = b, where A is the five-point stencil of a square grid.
 *
 * Each PE holds a band of grid rows and, of its direction vector, the row above and the row below
 * its band, which the neighbours put there together with a signal (before OpenSHMEM 1.5: a put, a
 * fence and a flag). Dot products add the PEs' parts in the order of the PEs, so the result has the
 * same bits regardless of deaths.
 *
 * Checked: b was computed from a known x (numbers up to 1000); the computed x differs from it by
 * less than 1e-6.
 */
#include "survive.h"

#include <string.h>

#ifndef GRID
#define GRID 64
#endif
#ifndef ROUNDS_A_STEP
#define ROUNDS_A_STEP 16
#endif
enum { MAX_PES = 64 };
#define SMALL_ENOUGH 1e-24

static long rounds;       /* done */
static double rho;        /* |r|^2 */
static double *x, *r, *p, *q;
static double *halo;      /* two rows: above and below my band of p */
static long *flag;        /* two: the rounds of the rows in halo */
static double parts[MAX_PES], mine[1];

static long first_of(int pe) {
    return (long)pe * GRID / shmem_n_pes();
}

static long rows(void) {
    return first_of(shmem_my_pe() + 1) - first_of(shmem_my_pe());
}

/* Sums a dot product over my band, and then over all PEs. */
static double dot(const double *u, const double *v) {
    double sum = 0;
    mine[0] = 0;
    for (long i = 0; i < rows() * GRID; i++)
        mine[0] += u[i] * v[i];
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        shmem_double_put(&parts[shmem_my_pe()], mine, 1, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        sum += parts[pe];
    shmem_barrier_all();
    return sum;
}

static void send_row(double *to, long *flag_there, const double *row, int pe) {
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
    shmem_double_put_signal(to, row, GRID, (uint64_t *)flag_there, (uint64_t)rounds + 1,
                            SHMEM_SIGNAL_SET, pe);
#else
    shmem_double_put(to, row, GRID, pe);
    shmem_fence();
    shmem_long_p(flag_there, rounds + 1, pe);
#endif
}

/* Computes q = A p. */
static void multiply(void) {
    int me = shmem_my_pe(), last = shmem_n_pes() - 1;
    if (me > 0)
        send_row(halo + GRID, &flag[1], p, me - 1);
    if (me < last)
        send_row(halo, &flag[0], p + (rows() - 1) * GRID, me + 1);
    if (me > 0)
        shmem_long_wait_until(&flag[0], SHMEM_CMP_GE, rounds + 1);
    if (me < last)
        shmem_long_wait_until(&flag[1], SHMEM_CMP_GE, rounds + 1);
    for (long row = 0; row < rows(); row++) {
        const double *at = p + row * GRID;
        const double *above = row > 0 ? at - GRID : halo;
        const double *below = row < rows() - 1 ? at + GRID : halo + GRID;
        for (long i = 0; i < GRID; i++) {
            double left = i > 0 ? at[i - 1] : 0, right = i < GRID - 1 ? at[i + 1] : 0;
            q[row * GRID + i] = 4 * at[i] - left - right - above[i] - below[i];
        }
    }
    shmem_barrier_all();
}

static double known(long row, long column) {
    return (double)(mix((uint64_t)(row * GRID + column)) % 2001) - 1000;
}

static void set_up(void) {
    size_t bytes = (GRID / (size_t)shmem_n_pes() + 1) * GRID * sizeof(double);
    x = symmetric(bytes), r = symmetric(bytes), p = symmetric(bytes), q = symmetric(bytes);
    halo = symmetric(2 * GRID * sizeof *halo);
    flag = symmetric(2 * sizeof *flag);
    for (long i = 0; i < rows() * GRID; i++)
        p[i] = known(first_of(shmem_my_pe()) + i / GRID, i % GRID);
    shmem_barrier_all();
    multiply(); /* b = A x */
    rounds++;
    memcpy(r, q, bytes);
    memcpy(p, q, bytes);
    rho = dot(r, r);
}

static void iterate(void) {
    multiply();
    double alpha = rho / dot(p, q), before = rho;
    for (long i = 0; i < rows() * GRID; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
    }
    rho = dot(r, r);
    for (long i = 0; i < rows() * GRID; i++)
        p[i] = r[i] + rho / before * p[i];
    rounds++;
}

static double start; /* initial rho */
static uint64_t wrong, checksum;
static int checked;

static void check(void) {
    uint64_t bad = 0, sum = 0, bits;
    long place = first_of(shmem_my_pe()) * GRID;
    for (long i = 0; i < rows() * GRID; i++) {
        double off = x[i] - known((place + i) / GRID, i % GRID);
        bad += !(off < 1e-6 && off > -1e-6);
        memcpy(&bits, &x[i], sizeof bits);
        sum += part((uint64_t)(place + i), bits);
    }
    wrong = sum_of_all(bad);
    checksum = sum_of_all(sum);
    checked = 1;
}

int main(void) {
    shmem_init();
    if (shmem_n_pes() > MAX_PES)
        shmem_global_exit(2);
    while (saved(), !checked) {
        if (!x) {
            set_up();
            start = rho;
        } else if (rounds < 10 * GRID && rho > start * SMALL_ENOUGH)
            for (int i = 0; i < ROUNDS_A_STEP && rho > start * SMALL_ENOUGH; i++)
                iterate();
        else
            check();
    }
    return verdict("cg", wrong, checksum);
}
