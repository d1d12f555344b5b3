/*
 * resize: a stencil that continues from a checkpoint on disk with another number of PEs.
 *
 *     new[i] = (old[i-1] + old[i] + old[i+1]) / 3
 *
 * The cells are distributed over the PEs in equal parts. A job of 4 PEs writes its checkpoints to
 * disk; after its end a job of 6 PEs reads the cells of its own parts from the parts of those 4:
 *
 *     SHMEM_FT_STORE=store oshrun -n 4 ./resize 1000000 10000
 *     SHMEM_FT_STORE=next oshrun -n 6 ./resize 1000000 10000 store
 *
 * The new job keeps its own checkpoints in another folder: a PE that is lost before the first of
 * them is replaced, and its substitute reads the old set again.
 *
 * usage: resize CELLS SWEEPS [DIR[@SET]]
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STARTING, COMPUTING, DONE, EVERY = 16 };

/* The state, in static variables and in the heap: a checkpoint holds both, and the set knows the
 * variables by their names, and the blocks by the names of the pointers to them. */
static size_t cells;
static long swept;
static int phase, current;
static uint64_t checksum;
static double *row[2]; /* the cells of this PE, and one more on either side */

static long sweeps;
static size_t first, count;

/* Returns the first cell of a PE. */
static size_t first_of(size_t pe, size_t n_pes) {
    return cells / n_pes * pe + (pe < cells % n_pes ? pe : cells % n_pes);
}

static void give_up(const char *why) {
    fprintf(stderr, "resize: PE %d: %s\n", shmem_my_pe(), why);
    shmem_global_exit(1);
}

/* Reads bytes of an object of a PE of the set. */
static void take(int set, const char *name, size_t pe, size_t offset, void *to, size_t bytes) {
    if (shmemx_ft_set_read(set, name, (int)pe, offset, to, bytes) != SHMEM_FT_SUCCESS)
        give_up(shmemx_ft_set_error());
}

/* Continues where the job that wrote the set was: takes the numbers from its PE 0, and from each of
 * its PEs the cells that this PE has now. */
static void continue_from(const char *dir) {
    int set = shmemx_ft_set_open(dir);
    const char *any;
    size_t bytes, was;
    int n_pes = 0;
    if (set < 0 || shmemx_ft_set_list(set, 0, &any, &n_pes, &bytes) != SHMEM_FT_SUCCESS)
        give_up(shmemx_ft_set_error());
    take(set, "cells", 0, 0, &was, sizeof was);
    if (was != cells)
        give_up("the set has another number of cells");
    take(set, "swept", 0, 0, &swept, sizeof swept);
    take(set, "current", 0, 0, &current, sizeof current);
    char name[16];
    snprintf(name, sizeof name, "row[%d]", current);
    for (size_t pe = 0; swept > 0 && pe < (size_t)n_pes; pe++) {
        size_t there = first_of(pe, (size_t)n_pes), end = first_of(pe + 1, (size_t)n_pes);
        size_t from = there > first ? there : first;
        size_t to = end < first + count ? end : first + count;
        if (from < to)
            take(set, name, pe, (1 + from - there) * sizeof(double),
                 &row[current][1 + from - first], (to - from) * sizeof(double));
    }
    shmemx_ft_set_close(set);
    if (shmem_my_pe() == 0)
        fprintf(stderr, "resize: continues after %ld sweeps of %d PEs\n", swept, n_pes);
}

/* Gives the outer cells of this PE to its neighbours. */
static void exchange(void) {
    size_t me = (size_t)shmem_my_pe(), n_pes = (size_t)shmem_n_pes();
    if (me > 0) {
        size_t theirs = first - first_of(me - 1, n_pes);
        shmem_double_p(&row[current][1 + theirs], row[current][1], (int)me - 1);
    }
    if (me + 1 < n_pes)
        shmem_double_p(&row[current][0], row[current][count], (int)me + 1);
    shmem_barrier_all();
}

static void set_up(const char *dir) {
    size_t me = (size_t)shmem_my_pe(), n_pes = (size_t)shmem_n_pes();
    first = first_of(me, n_pes), count = first_of(me + 1, n_pes) - first;
    for (int i = 0; i < 2; i++) {
        row[i] = shmem_calloc(cells / n_pes + 3, sizeof(double));
        if (!row[i])
            give_up("the symmetric heap is too small");
    }
    for (size_t i = 0; i < count; i++) /* any values that are not equal */
        row[0][1 + i] = (double)((first + i) * 7919 % 1000) / 1000.0;
    if (dir)
        continue_from(dir);
    exchange();
}

static void compute(void) {
    for (long end = swept + EVERY; swept < end && swept < sweeps; swept++) {
        const double *old = row[current];
        double *new = row[!current];
        for (size_t i = 1; i <= count; i++)
            new[i] = (old[i - 1] + old[i] + old[i + 1]) / 3.0;
        current = !current;
        exchange();
    }
}

/* Reads all cells in their order, on one PE. */
static uint64_t sum_of_all(void) {
    size_t n_pes = (size_t)shmem_n_pes();
    double *all = malloc((cells / n_pes + 1) * sizeof *all);
    uint64_t sum = 0;
    for (size_t pe = 0; all && pe < n_pes; pe++) {
        size_t n = first_of(pe + 1, n_pes) - first_of(pe, n_pes);
        shmem_getmem(all, &row[current][1], n * sizeof *all, (int)pe);
        for (size_t i = 0; i < n; i++) {
            uint64_t bits;
            memcpy(&bits, &all[i], sizeof bits);
            sum = (sum ^ bits) * 0x9fb21c651e98df25u;
            sum ^= sum >> 32;
        }
    }
    free(all);
    return sum;
}

/* Brings substitutes for lost PEs in, and meets them. */
static void recover(void) {
    int *pes = NULL, *status = NULL;
    size_t n = 0;
    shmem_query_fault(&pes, &status, &n);
    shmem_restart_pes(pes, n);
    shmem_barrier_all();
    free(pes);
    free(status);
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: resize CELLS SWEEPS [DIR[@SET]]\n");
        return 2;
    }
    cells = strtoul(argv[1], NULL, 10), sweeps = strtol(argv[2], NULL, 10);
    shmem_init();
    if (cells < (size_t)shmem_n_pes())
        give_up("each PE needs a cell");
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (phase == DONE)
            break;
        if (phase == STARTING) {
            set_up(argc > 3 ? argv[3] : NULL);
            phase = COMPUTING;
        } else if (swept < sweeps) {
            compute();
        } else {
            if (shmem_my_pe() == 0)
                checksum = sum_of_all();
            shmem_barrier_all();
            phase = DONE;
        }
    }
    if (shmem_my_pe() == 0)
        printf("resize checksum=%016llx\n", (unsigned long long)checksum);
    shmem_finalize();
    return 0;
}
