/*
 * himeno: the kernel of the Himeno benchmark: the pressure of a fluid by Jacobi's method, a
 * 19-point stencil, in single precision.
 *
 *     himeno [I J K ITERATIONS EVERY]    cells, iterations, and iterations between two checkpoints
 *
 * The grid is cut into slabs along its first axis. Each iteration puts the first and the last plane
 * of a slab to the neighbours, and adds up the change of the pressure. The coefficients are
 * identical in every run, so they are private: a substitute recomputes them. So is the pointer to
 * them: a restart would set a static one to the address that the dead process had.
 *
 * Checked: each PE also computes the whole grid by itself, if that is small, and its slab must be
 * bitwise identical.
 */
#include "survive.h"

#include <string.h>

#define OMEGA 0.8f

static long outer = 33, middle = 33, inner = 65, iterations = 48, every = 8;
static long done;              /* iterations */
static float *pressure, *next; /* symmetric: own planes, and one on either side */
static float change, changes;  /* of this PE, and of all */
static long present[2];        /* iterations of the planes received from below and above */

/* Coefficients of a cell: equal for all cells in this benchmark, but stored for each. */
struct coefficients {
    float a[4], b[3], c[3], bound, source;
};
static long size(void) {
    return middle * inner;
}

/* Returns the first plane of PE pe; the first and the last plane of the grid are fixed. */
static long first_of(long pe) {
    return 1 + pe * (outer - 2) / shmem_n_pes();
}

static long planes(void) {
    return first_of(shmem_my_pe() + 1) - first_of(shmem_my_pe());
}

/* Sets plane 0 of p to plane `from` of the grid. */
static void begin(float *p, long from, long count) {
    for (long i = 0; i < count; i++)
        for (long at = 0; at < size(); at++)
            p[i * size() + at] = (float)((i + from) * (i + from)) / (float)(outer * outer);
}

/* Computes planes 1 to count of q from p; returns the sum of the squares of the changes. */
static float relax(const struct coefficients *of, float *q, const float *p, long count) {
    const long s = size(), n = inner;
    float sum = 0;
    for (long i = 1; i <= count; i++)
        for (long j = 1; j < middle - 1; j++)
            for (long k = 1; k < inner - 1; k++) {
                const long at = i * s + j * n + k;
                const float *x = p + at;
                const struct coefficients *w = of + at;
                float next_to = w->a[0] * x[s] + w->a[1] * x[n] + w->a[2] * x[1] +
                                w->b[0] * (x[s + n] - x[s - n] - x[n - s] + x[-s - n]) +
                                w->b[1] * (x[n + 1] - x[1 - n] - x[n - 1] + x[-n - 1]) +
                                w->b[2] * (x[s + 1] - x[1 - s] - x[s - 1] + x[-s - 1]) +
                                w->c[0] * x[-s] + w->c[1] * x[-n] + w->c[2] * x[-1] + w->source;
                float by = (next_to * w->a[3] - x[0]) * w->bound;
                sum += by * by;
                q[at] = x[0] + OMEGA * by;
            }
    return sum;
}

/* Returns true if PEs also compute the whole grid. */
static int is_small(void) {
    return outer * size() * iterations <= 8000000;
}

static struct coefficients *set_up(void) {
    long cells = (is_small() ? outer : planes() + 2) * size();
    struct coefficients *of = malloc((size_t)cells * sizeof *of);
    if (!of)
        shmem_global_exit(1);
    for (long at = 0; at < cells; at++)
        of[at] = (struct coefficients){{1, 1, 1, 1.0f / 6}, {0, 0, 0}, {1, 1, 1}, 1, 0};
    return of;
}

static void lay_out(void) {
    size_t bytes = (size_t)((outer - 2) / shmem_n_pes() + 3) * (size_t)size() * sizeof *pressure;
    float *p = symmetric(bytes);
    next = symmetric(bytes);
    begin(p, first_of(shmem_my_pe()) - 1, planes() + 2);
    memcpy(next, p, bytes);
    pressure = p;
}

/* Puts a computed plane to each neighbour, and waits for theirs. */
static void exchange(float *p) {
    int me = shmem_my_pe(), last = shmem_n_pes() - 1;
    long theirs = me > 0 ? first_of(me) - first_of(me - 1) : 0;
    if (me > 0)
        shmem_float_put(p + (theirs + 1) * size(), p + size(), (size_t)size(), me - 1);
    if (me < last)
        shmem_float_put(p, p + planes() * size(), (size_t)size(), me + 1);
    shmem_fence();
    if (me > 0)
        shmem_long_p(&present[1], done + 1, me - 1);
    if (me < last)
        shmem_long_p(&present[0], done + 1, me + 1);
    if (me > 0)
        shmem_long_wait_until(&present[0], SHMEM_CMP_GE, done + 1);
    if (me < last)
        shmem_long_wait_until(&present[1], SHMEM_CMP_GE, done + 1);
}

static void iterate(const struct coefficients *of) {
    float *swap = pressure;
    change = relax(of, next, pressure, planes());
    exchange(next);
    pressure = next;
    next = swap;
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
    shmem_float_sum_reduce(SHMEM_TEAM_WORLD, &changes, &change, 1);
#else
    changes = (float)sum_of_all((uint64_t)(change * 1e9f));
#endif
    done++;
}

/* Counts the cells of this PE's slab that differ from a computation by one PE. */
static uint64_t wrong_cells(const struct coefficients *of) {
    if (!is_small())
        return 0;
    size_t bytes = (size_t)(outer * size()) * sizeof(float);
    float *p = malloc(bytes), *q = malloc(bytes);
    uint64_t wrong = !p || !q;
    if (!wrong) {
        begin(p, 0, outer);
        memcpy(q, p, bytes);
        for (long i = 0; i < iterations; i++) {
            float *swap = p;
            relax(of, q, p, outer - 2);
            p = q;
            q = swap;
        }
        const float *own = p + first_of(shmem_my_pe()) * size();
        for (long at = 0; at < planes() * size(); at++)
            wrong += memcmp(&own[at], &pressure[size() + at], sizeof *own) != 0;
    }
    free(p);
    free(q);
    return wrong;
}

static uint64_t wrong, checksum;
static int checked;

static void check(const struct coefficients *of) {
    uint64_t sum = 0;
    long place = first_of(shmem_my_pe()) * size();
    for (long at = 0; at < planes() * size(); at++) {
        uint32_t bits;
        memcpy(&bits, &pressure[size() + at], sizeof bits);
        sum += part((uint64_t)(place + at), bits);
    }
    wrong = sum_of_all(wrong_cells(of)) + !(changes >= 0);
    checksum = sum_of_all(sum);
    checked = 1;
}

int main(int argc, char **argv) {
    long *arguments[] = {&outer, &middle, &inner, &iterations, &every};
    shmem_init();
    for (int i = 1; i < argc && i <= 5; i++)
        *arguments[i - 1] = atol(argv[i]);
    int few = outer < 2 + shmem_n_pes() || middle < 3 || inner < 3 || every < 1;
    if (few || (argc > 1 && argc != 6)) {
        if (shmem_my_pe() == 0)
            fprintf(stderr, "himeno: expected I J K ITERATIONS EVERY, I at least the PEs + 2\n");
        shmem_global_exit(2);
    }
    const struct coefficients *of = set_up();
    while (saved(), !checked) {
        if (!pressure)
            lay_out();
        else if (done < iterations)
            for (long i = 0; i < every && done < iterations; i++)
                iterate(of);
        else
            check(of);
    }
    return verdict("himeno", wrong, checksum);
}
