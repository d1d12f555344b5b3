/*
 * jacobi: a one-dimensional three-point stencil that survives the death of its PEs.
 *
 *     new[i] = (old[i-1] + old[i] + old[i+1]) / 3
 *
 * The global array is distributed over the PEs. Each PE keeps `halo` cells of its neighbours on
 * either side and uses them up over `halo` sweeps, computing some cells redundantly instead of
 * communicating after each sweep. Then the halos are fetched again and a checkpoint is taken. The
 * value of a cell after n sweeps depends only on its number, so the checksum does not depend on the
 * number of PEs, and equals that of plain loops (--serial).
 *
 * All state of the algorithm is in symmetric memory (static variables are), so that a checkpoint
 * holds it. After a death every PE, including a substitute, continues at the top of the loop with
 * the state of the last checkpoint; unfinished work is discarded.
 *
 * usage: jacobi [--bytes N[K|M|G]] [--sweeps N] [--halo N] [--serial]
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, also with -std=c11 */

#include <shmem.h>
#include <shmem_ft.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STARTING, COMPUTING, DONE };

/* The state of the algorithm: it rolls back to the checkpoint together with the arrays. */
static long swept;         /* sweeps done */
static int current;        /* the buffer with the result of the last one */
static int phase;
static uint64_t checksum;  /* on PE 0, when phase is DONE */
static double started;     /* start time, in seconds of the monotonic clock */

/* Options from the command line, which a substitute parses again. */
static size_t cells = (64 << 20) / sizeof(double);
static long sweeps = 4096;
static size_t halo = 256;
static int serial;

/* The part of this PE: cells first .. first + count, with `halo` more on either side. */
static size_t first, count;
static double *buffer[2];

static void usage(const char *what, const char *value) {
    fprintf(stderr,
            "jacobi: %s %s (usage: jacobi [--bytes N[K|M|G]] [--sweeps N] [--halo N] [--serial])\n",
            what, value);
    exit(2);
}

static size_t number(const char *name, const char *text, int with_unit, size_t max) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || errno)
        usage("not a number:", text ? text : name);
    unsigned shift = 0;
    if (with_unit && *end) {
        const char *units = "KMG", *unit = strchr(units, *end & ~0x20);
        if (unit) {
            shift = 10 * (unsigned)(unit - units + 1);
            end++;
        }
    }
    if (*end)
        usage("not a number:", text);
    if (value > max >> shift)
        usage("too large:", text);
    return (size_t)value << shift;
}

static void read_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--bytes"))
            cells = number("--bytes", value, 1, SIZE_MAX / 8) / sizeof(double), i++;
        else if (!strcmp(argv[i], "--sweeps"))
            sweeps = (long)number("--sweeps", value, 0, 1L << 40), i++;
        else if (!strcmp(argv[i], "--halo"))
            halo = number("--halo", value, 0, 1 << 30), i++;
        else if (!strcmp(argv[i], "--serial"))
            serial = 1;
        else
            usage("unknown argument", argv[i]);
    }
    if (cells == 0)
        usage("--bytes:", "at least 8");
    if (halo == 0)
        usage("--halo:", "at least 1");
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the first value of a cell: any fixed function of its number will do. */
static double initial(size_t cell) {
    uint64_t x = cell * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    return (double)(x >> 12) * 0x1p-52 * 2.0 - 1.0;
}

/* Does one sweep over from[0 .. n]; also reads the cells on either side of it. */
static void sweep(double *restrict to, const double *restrict from, size_t n) {
    const double *left = from - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = (left[i] + left[i + 1] + left[i + 2]) / 3.0;
}

/* A checksum of bit patterns in the order of cells: eight lanes, each a chain of multiplications.
 * The cell's number selects the lane, so the distribution of the array does not matter. */
enum { LANES = 8 };

struct digest {
    uint64_t lane[LANES];
};

static void digest_add(struct digest *digest, const double *from, size_t n, size_t cell) {
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint64_t *lane = &digest->lane[(cell + i) % LANES];
        *lane = (*lane ^ bits) * 0x9fb21c651e98df25u;
        *lane ^= *lane >> 32;
    }
}

static uint64_t digest_end(const struct digest *digest) {
    uint64_t all = cells;
    for (int i = 0; i < LANES; i++) {
        all = (all ^ digest->lane[i]) * 0x9fb21c651e98df25u;
        all ^= all >> 28;
    }
    return all;
}

/* Returns the first cell of a PE: all have equally many, the first PEs perhaps one more. */
static size_t first_of(size_t pe, size_t n_pes) {
    size_t share = cells / n_pes, rest = cells % n_pes;
    return pe * share + (pe < rest ? pe : rest);
}

static size_t owner_of(size_t cell, size_t n_pes) {
    size_t share = cells / n_pes, rest = cells % n_pes;
    if (cell < rest * (share + 1))
        return cell / (share + 1);
    return rest + (cell - rest * (share + 1)) / share;
}

/* Returns the index of a cell in the buffer of the PE that owns it. */
static size_t place_of(size_t cell, size_t owner, size_t n_pes) {
    return halo + cell - first_of(owner, n_pes);
}

/* Sweeps `rounds` times: every sweep computes one cell less on either side, except at the ends of
 * the global array, where the outer cell is the fixed boundary (zero). */
static void compute(long rounds) {
    size_t after = cells - first - count;
    for (long round = 1; round <= rounds; round++) {
        size_t reach = (size_t)(rounds - round);
        size_t below = reach < first ? reach : first;
        size_t above = reach < after ? reach : after;
        sweep(buffer[!current] + halo - below, buffer[current] + halo - below,
              below + count + above);
        current = !current;
    }
    swept += rounds;
}

/* Fetches `n` cells from their owners, of which there may be several, to `to`. */
static void fetch(double *to, size_t cell, size_t n) {
    size_t n_pes = (size_t)shmem_n_pes();
    while (n > 0) {
        size_t owner = owner_of(cell, n_pes);
        size_t there = first_of(owner + 1, n_pes) - cell;
        size_t some = n < there ? n : there;
        shmem_getmem(to, buffer[current] + place_of(cell, owner, n_pes), some * sizeof *to,
                     (int)owner);
        to += some, cell += some, n -= some;
    }
}

/* Fetches both halos. No PE computes between the barriers, so all cells read are of one sweep. */
static void exchange(void) {
    size_t below = halo < first ? halo : first;
    size_t after = cells - first - count, above = halo < after ? halo : after;
    shmem_barrier_all();
    fetch(buffer[current] + halo - below, first - below, below);
    fetch(buffer[current] + halo + count, first + count, above);
    shmem_barrier_all();
}

/* On PE 0, reads the whole array, piece by piece. */
static uint64_t gather(void) {
    enum { PIECE = 1 << 13 };
    double piece[PIECE];
    struct digest digest = {{0}};
    for (size_t cell = 0; cell < cells;) {
        size_t n = cells - cell < PIECE ? cells - cell : PIECE;
        fetch(piece, cell, n);
        digest_add(&digest, piece, n, cell);
        cell += n;
    }
    return digest_end(&digest);
}

/* Queries the losses, brings substitutes in, and meets them. */
static void recover(void) {
    int *pes = NULL, *status = NULL;
    size_t n = 0;
    shmem_query_fault(&pes, &status, &n);
    for (size_t i = 0; shmem_my_pe() == 0 && i < n; i++)
        fprintf(stderr, "jacobi: PE %d died (%s)\n", pes[i],
                status[i] == SHMEM_FT_NODE_FAILED ? "its node failed" : "its process ended");
    shmem_restart_pes(pes, n);
    shmem_barrier_all();
    free(pes);
    free(status);
}

static void fill(double *to, size_t cell, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = initial(cell + i);
}

static void report(uint64_t sum) {
    printf("jacobi checksum=%016llx seconds=%.6f\n", (unsigned long long)sum,
           seconds_now() - started);
    fflush(stdout);
}

static int run_serial(void) {
    double *old = calloc(cells + 2, sizeof *old), *new = calloc(cells + 2, sizeof *new);
    if (!old || !new) {
        fprintf(stderr, "jacobi: no memory for two arrays of %zu cells\n", cells);
        return 1;
    }
    started = seconds_now();
    fill(old + 1, 0, cells);
    for (long i = 0; i < sweeps; i++) {
        sweep(new + 1, old + 1, cells);
        double *swap = old;
        old = new, new = swap;
    }
    struct digest digest = {{0}};
    digest_add(&digest, old + 1, cells, 0);
    report(digest_end(&digest));
    free(old);
    free(new);
    return 0;
}

/* Distributes the array and allocates both buffers; the fixed boundary is a zero that is never
   written. */
static void set_up(void) {
    started = seconds_now();
    size_t me = (size_t)shmem_my_pe(), n_pes = (size_t)shmem_n_pes();
    if (cells < n_pes) {
        if (me == 0)
            fprintf(stderr, "jacobi: --bytes: %zu cells are too few for %zu PEs\n", cells, n_pes);
        shmem_barrier_all();
        shmem_global_exit(2);
    }
    first = first_of(me, n_pes);
    count = first_of(me + 1, n_pes) - first;
    size_t capacity = halo + (cells + n_pes - 1) / n_pes + halo;
    for (int i = 0; i < 2; i++) {
        buffer[i] = shmem_calloc(capacity, sizeof(double));
        if (!buffer[i]) {
            if (me == 0)
                fprintf(stderr, "jacobi: no symmetric memory for %zu bytes a PE; set "
                        "SHMEM_SYMMETRIC_SIZE\n", 2 * capacity * sizeof(double));
            shmem_barrier_all();
            shmem_global_exit(1);
        }
    }
    size_t below = halo < first ? halo : first;
    size_t after = cells - first - count, above = halo < after ? halo : after;
    fill(buffer[0] + halo - below, first - below, below + count + above);
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    if (serial)
        return run_serial();

    shmem_init();
    if (!shmem_ft_algo_init())
        fprintf(stderr, "jacobi: a substitute takes over PE %d\n", shmem_my_pe());

    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (phase == DONE)
            break;
        if (phase == STARTING) {
            set_up();
            phase = COMPUTING;
        } else if (swept < sweeps) {
            long left = sweeps - swept;
            compute(left < (long)halo ? left : (long)halo);
            if (swept < sweeps)
                exchange();
        } else {
            if (shmem_my_pe() == 0)
                checksum = gather();
            phase = DONE;
        }
    }

    if (shmem_my_pe() == 0)
        report(checksum);
    shmem_finalize();
    return 0;
}
