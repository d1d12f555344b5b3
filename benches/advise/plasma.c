/*
 * plasma: charged particles in a box, their field, the heat that they emit, and reactions in that
 * heat. A program of many phases that share a few large arrays, as real ones do:
 *
 *     deposit   particles to charge in cells, with the edges of neighbours added
 *     solve     the potential of the charge: conjugate gradients after a multigrid cycle
 *     field     the gradient of the potential
 *     push      particles in the field; those that leave the band go to a neighbour
 *     sort      particles by cell, every few steps
 *     heat      energy of slow particles becomes heat, which spreads
 *     react     two substances in each cell, by a table of rates
 *     spectrum  energies of all particles, sorted over all PEs, and their quantiles
 *     trace     the positions of a few particles, on any PE
 *     moments   sums over all PEs, and their history
 *
 * Each PE has a band of ROWS rows. A step begins with the one checkpoint of the program. Results of
 * the previous step are in static arrays: particles, potential, heat, substances, history. All
 * other data is recomputed in each step, and a checkpoint need not hold it.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PES
#define PES 4
#endif
#ifndef STEPS
#define STEPS 12
#endif

enum {
    COLUMNS = 64,
    ROWS = 32,
    CELLS = ROWS * COLUMNS,
    MOST = 8192,     /* particles of a PE */
    FIRST = 3000,    /* initial particles */
    PASSING = 1024,  /* particles to one neighbour per step */
    ROUNDS = 12,     /* of the solver */
    SMOOTH = 2,      /* sweeps on each level */
    RATES = 512,     /* entries of the table */
    BINS = 64,       /* of the histogram */
    QUANTILES = 16,
    TRACED = 8,
    SAMPLES = 8,     /* from each PE, to choose splitters */
    RECORDS = 64,    /* of the history */
    SORT_EVERY = 4
};

/* ---- state of the previous step -------------------------------------------------------------- */

static int step;

/* Particles: columns and rows within the band, velocity, charge, and a permanent number. */
static double px[MOST], py[MOST], vx[MOST], vy[MOST], charge[MOST];
static uint64_t number[MOST];
static int particles;

static double potential[ROWS + 2][COLUMNS];
static double heat[ROWS + 2][COLUMNS];
static double fuel[ROWS][COLUMNS], ash[ROWS][COLUMNS];

struct record {
    double kinetic, field, heat, fuel, ash;
    double momentum[2];
    double quantile[QUANTILES];
    long particles, cells_lit;
};

static struct record history[RECORDS];
static double track[TRACED][STEPS + 1][2];

/* ---- data recomputed in each step ------------------------------------------------------------ */

static double density[ROWS + 2][COLUMNS];
static double edge_in[2][COLUMNS];
static double field_x[ROWS][COLUMNS], field_y[ROWS][COLUMNS];
static double residual[ROWS + 2][COLUMNS], direction[ROWS + 2][COLUMNS];
static double product[ROWS][COLUMNS], smoothed[ROWS + 2][COLUMNS];
static double heat_next[ROWS + 2][COLUMNS], released[ROWS][COLUMNS];
static double rates[RATES];
static double histogram[BINS], histogram_all[BINS];

enum { HALF_ROWS = ROWS / 2, HALF_COLUMNS = COLUMNS / 2, QUARTER_ROWS = ROWS / 4,
       QUARTER_COLUMNS = COLUMNS / 4 };
static double half_right[HALF_ROWS + 2][HALF_COLUMNS], half_left[HALF_ROWS + 2][HALF_COLUMNS];
static double quarter_right[QUARTER_ROWS + 2][QUARTER_COLUMNS];
static double quarter_left[QUARTER_ROWS + 2][QUARTER_COLUMNS];

/* Particles on their way: one box upwards and one downwards. */
struct parcel {
    double x, y, vx, vy, charge;
    uint64_t number;
};

static struct parcel leaving[2][PASSING], arrived[2][PASSING];
static long leaving_count[2], arrived_count[2];

/* The sort by cell, and the sort of energies over all PEs. */
static int cell_begin[CELLS + 1];
static double sorted_double[MOST];
static uint64_t sorted_number[MOST];
static int slot[MOST];
static double energies[MOST], sample[SAMPLES], samples[SAMPLES * PES], splitter[PES];
static double received[MOST * 2];
static long bucket_count[PES], bucket_at[PES], offer[PES], offered[PES];
static long received_count, ranks_before, all_particles;

static double sums[16], sums_all[16];
static long counts[4], counts_all[4];

static int me, pes;

/* ---- helpers --------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Returns a number from 0 to 1 that depends only on the seed. */
static double drawn(uint64_t seed) {
    return (double)(mixed(seed + 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53;
}

static double square(double x) {
    return x * x;
}

/* Returns `low` for NaN, too: after a loss sums may be anything until the restart. */
static double limited(double x, double low, double high) {
    return x > low ? x < high ? x : high : low;
}

static int above(void) {
    return me > 0 ? me - 1 : -1;
}

static int below(void) {
    return me < pes - 1 ? me + 1 : -1;
}

/* Ignored between a loss and the restart: results from then are garbage and are discarded. */
static void fail(const char *what) {
    if (shmemx_ft_faulted())
        return;
    fprintf(stderr, "plasma: PE %d: %s\n", me, what);
    shmem_global_exit(1);
}

/* Sums over all PEs, into `sums_all`. */
static void sum_doubles(int n) {
    shmem_barrier_all();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, sums_all, sums, n);
}

static void sum_longs(int n) {
    shmem_barrier_all();
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, counts_all, counts, n);
}

static double sum_of_all(double own) {
    sums[0] = own;
    sum_doubles(1);
    return sums_all[0];
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void begin_particles(void) {
    for (int i = 0; i < FIRST; i++) {
        uint64_t id = (uint64_t)me * FIRST + i, seed = id * 8;
        px[i] = drawn(seed) * COLUMNS;
        py[i] = drawn(seed + 1) * ROWS;
        vx[i] = 0.6 * (drawn(seed + 2) - 0.5);
        vy[i] = 0.6 * (drawn(seed + 3) - 0.5);
        charge[i] = id % 2 ? 1 : -1;
        number[i] = id;
    }
    particles = FIRST;
}

static void begin_cells(void) {
    for (int y = 0; y < ROWS + 2; y++)
        for (int x = 0; x < COLUMNS; x++) {
            potential[y][x] = 0;
            heat[y][x] = 0.1;
        }
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            fuel[y][x] = 1 + 0.2 * drawn((uint64_t)(me * ROWS + y) * COLUMNS + x);
            ash[y][x] = 0;
        }
}

/* ---- edges of neighbours --------------------------------------------------------------------- */

/* Copies rows 0 and last + 1 of a band from the neighbours that own them. */
static void exchange(double *band, int last, int columns) {
    shmem_barrier_all();
    if (above() >= 0)
        shmem_double_put(band + (last + 1) * columns, band + columns, columns, above());
    if (below() >= 0)
        shmem_double_put(band, band + last * columns, columns, below());
    shmem_barrier_all();
}

/* At the walls of the box, copies the row inside to the row beyond. */
static void close_walls(double *band, int last, int columns) {
    if (above() < 0)
        memcpy(band, band + columns, columns * sizeof *band);
    if (below() < 0)
        memcpy(band + (last + 1) * columns, band + last * columns, columns * sizeof *band);
}

/* Beyond the walls the potential is 0. */
static void ground_walls(double *band, int last, int columns) {
    if (above() < 0)
        memset(band, 0, columns * sizeof *band);
    if (below() < 0)
        memset(band + (last + 1) * columns, 0, columns * sizeof *band);
}

static int right_of(int x, int columns) {
    return x + 1 < columns ? x + 1 : 0;
}

static int left_of(int x, int columns) {
    return x > 0 ? x - 1 : columns - 1;
}

/* ---- deposit: particles to charge ------------------------------------------------------------ */

struct weights {
    int x0, x1, y0;
    double w00, w01, w10, w11;
};

/* Returns the four cells that share a particle; rows count from 0, the row above the band. */
static struct weights weigh(int i) {
    struct weights w;
    double x = px[i], y = py[i] + 0.5;
    int column = (int)x, row = (int)y;
    double fx = x - column, fy = y - row;
    w.x0 = column % COLUMNS;
    w.x1 = right_of(w.x0, COLUMNS);
    w.y0 = row;
    w.w00 = (1 - fx) * (1 - fy);
    w.w01 = fx * (1 - fy);
    w.w10 = (1 - fx) * fy;
    w.w11 = fx * fy;
    return w;
}

static void clear_density(void) {
    for (int y = 0; y < ROWS + 2; y++)
        for (int x = 0; x < COLUMNS; x++)
            density[y][x] = 0;
}

static void add_particles(void) {
    for (int i = 0; i < particles; i++) {
        struct weights w = weigh(i);
        density[w.y0][w.x0] += charge[i] * w.w00;
        density[w.y0][w.x1] += charge[i] * w.w01;
        density[w.y0 + 1][w.x0] += charge[i] * w.w10;
        density[w.y0 + 1][w.x1] += charge[i] * w.w11;
    }
}

/* Charge that particles near an edge left in the row beyond belongs to the neighbour. */
static void add_edges(void) {
    for (int i = 0; i < 2; i++)
        for (int x = 0; x < COLUMNS; x++)
            edge_in[i][x] = 0;
    shmem_barrier_all();
    if (above() >= 0)
        shmem_double_put(edge_in[1], density[0], COLUMNS, above());
    if (below() >= 0)
        shmem_double_put(edge_in[0], density[ROWS + 1], COLUMNS, below());
    shmem_barrier_all();
    for (int x = 0; x < COLUMNS; x++) {
        density[1][x] += edge_in[0][x];
        density[ROWS][x] += edge_in[1][x];
    }
}

/* A box has a potential only if its total charge is 0. */
static void neutralise(void) {
    double own = 0;
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            own += density[y][x];
    double mean = sum_of_all(own) / ((double)CELLS * pes);
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            density[y][x] -= mean;
}

static void deposit(void) {
    clear_density();
    add_particles();
    add_edges();
    neutralise();
}

/* ---- multigrid: a first guess of the potential ----------------------------------------------- */

/* Does one red-black sweep over a band, of -laplace(left) = right. */
static void sweep(double *left, const double *right, int rows, int columns, double spacing) {
    double s = spacing * spacing;
    for (int colour = 0; colour < 2; colour++) {
        exchange(left, rows, columns);
        ground_walls(left, rows, columns);
        for (int y = 1; y <= rows; y++)
            for (int x = (y + colour) % 2; x < columns; x += 2) {
                int at = y * columns;
                double around = left[at - columns + x] + left[at + columns + x] +
                                left[at + left_of(x, columns)] + left[at + right_of(x, columns)];
                left[at + x] = 0.25 * (around + s * right[at + x]);
            }
    }
}

/* Computes the charge that the potential does not account for. */
static void find_residual(void) {
    exchange(&potential[0][0], ROWS, COLUMNS);
    ground_walls(&potential[0][0], ROWS, COLUMNS);
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            double around = potential[y - 1][x] + potential[y + 1][x] +
                            potential[y][left_of(x, COLUMNS)] +
                            potential[y][right_of(x, COLUMNS)];
            residual[y][x] = density[y][x] - (4 * potential[y][x] - around);
        }
}

static void restrict_to_half(void) {
    for (int y = 0; y < HALF_ROWS + 2; y++)
        for (int x = 0; x < HALF_COLUMNS; x++) {
            half_left[y][x] = 0;
            half_right[y][x] = 0;
        }
    for (int y = 1; y <= HALF_ROWS; y++)
        for (int x = 0; x < HALF_COLUMNS; x++)
            half_right[y][x] = 0.25 * (residual[2 * y - 1][2 * x] + residual[2 * y - 1][2 * x + 1] +
                                       residual[2 * y][2 * x] + residual[2 * y][2 * x + 1]);
}

static double half_residual(int y, int x) {
    double around = half_left[y - 1][x] + half_left[y + 1][x] +
                    half_left[y][left_of(x, HALF_COLUMNS)] +
                    half_left[y][right_of(x, HALF_COLUMNS)];
    return half_right[y][x] - (4 * half_left[y][x] - around) / 4;
}

static void restrict_to_quarter(void) {
    for (int y = 0; y < QUARTER_ROWS + 2; y++)
        for (int x = 0; x < QUARTER_COLUMNS; x++) {
            quarter_left[y][x] = 0;
            quarter_right[y][x] = 0;
        }
    exchange(&half_left[0][0], HALF_ROWS, HALF_COLUMNS);
    ground_walls(&half_left[0][0], HALF_ROWS, HALF_COLUMNS);
    for (int y = 1; y <= QUARTER_ROWS; y++)
        for (int x = 0; x < QUARTER_COLUMNS; x++)
            quarter_right[y][x] =
                0.25 * (half_residual(2 * y - 1, 2 * x) + half_residual(2 * y - 1, 2 * x + 1) +
                        half_residual(2 * y, 2 * x) + half_residual(2 * y, 2 * x + 1));
}

static void add_quarter(void) {
    for (int y = 1; y <= HALF_ROWS; y++)
        for (int x = 0; x < HALF_COLUMNS; x++)
            half_left[y][x] += quarter_left[(y + 1) / 2][x / 2];
}

static void add_half(void) {
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            potential[y][x] += half_left[(y + 1) / 2][x / 2];
}

/* Goes down to a quarter of the resolution, and up again. */
static void cycle(void) {
    find_residual();
    restrict_to_half();
    for (int i = 0; i < SMOOTH; i++)
        sweep(&half_left[0][0], &half_right[0][0], HALF_ROWS, HALF_COLUMNS, 2);
    restrict_to_quarter();
    for (int i = 0; i < 4 * SMOOTH; i++)
        sweep(&quarter_left[0][0], &quarter_right[0][0], QUARTER_ROWS, QUARTER_COLUMNS, 4);
    add_quarter();
    for (int i = 0; i < SMOOTH; i++)
        sweep(&half_left[0][0], &half_right[0][0], HALF_ROWS, HALF_COLUMNS, 2);
    add_half();
    for (int i = 0; i < SMOOTH; i++)
        sweep(&potential[0][0], &density[0][0], ROWS, COLUMNS, 1);
}

/* ---- conjugate gradients: the potential ------------------------------------------------------ */

static double dot_residual(void) {
    double own = 0;
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            own += residual[y][x] * residual[y][x];
    return sum_of_all(own);
}

static double dot_product(void) {
    double own = 0;
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            own += direction[y][x] * product[y - 1][x];
    return sum_of_all(own);
}

static void begin_direction(void) {
    for (int y = 0; y < ROWS + 2; y++)
        for (int x = 0; x < COLUMNS; x++)
            direction[y][x] = 0;
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            direction[y][x] = residual[y][x];
}

static void multiply(void) {
    exchange(&direction[0][0], ROWS, COLUMNS);
    ground_walls(&direction[0][0], ROWS, COLUMNS);
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            product[y - 1][x] = 4 * direction[y][x] - direction[y - 1][x] - direction[y + 1][x] -
                                direction[y][left_of(x, COLUMNS)] -
                                direction[y][right_of(x, COLUMNS)];
}

static void advance(double length) {
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            potential[y][x] += length * direction[y][x];
            residual[y][x] -= length * product[y - 1][x];
        }
}

static void turn(double share) {
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            direction[y][x] = residual[y][x] + share * direction[y][x];
}

static void solve(void) {
    cycle();
    find_residual();
    begin_direction();
    double rest = dot_residual();
    for (int i = 0; i < ROUNDS && rest > 1e-18; i++) {
        multiply();
        double length = rest / dot_product();
        advance(length);
        double next = dot_residual();
        turn(next / rest);
        rest = next;
    }
}

/* ---- the field ------------------------------------------------------------------------------- */

/* Smooths the roughness of single cells out of the potential, for the gradient only. */
static void smooth_potential(void) {
    for (int y = 0; y < ROWS + 2; y++)
        for (int x = 0; x < COLUMNS; x++)
            smoothed[y][x] = 0;
    exchange(&potential[0][0], ROWS, COLUMNS);
    ground_walls(&potential[0][0], ROWS, COLUMNS);
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            smoothed[y][x] = 0.5 * potential[y][x] +
                             0.125 * (potential[y - 1][x] + potential[y + 1][x] +
                                      potential[y][left_of(x, COLUMNS)] +
                                      potential[y][right_of(x, COLUMNS)]);
}

static void find_field(void) {
    smooth_potential();
    exchange(&smoothed[0][0], ROWS, COLUMNS);
    ground_walls(&smoothed[0][0], ROWS, COLUMNS);
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            field_x[y][x] = 0.5 * (smoothed[y + 1][left_of(x, COLUMNS)] -
                                   smoothed[y + 1][right_of(x, COLUMNS)]);
            field_y[y][x] = 0.5 * (smoothed[y][x] - smoothed[y + 2][x]);
        }
}

/* ---- push: particles in the field ------------------------------------------------------------ */

static void pull(int i) {
    int row = (int)limited(py[i], 0, ROWS - 1), column = (int)limited(px[i], 0, COLUMNS - 1);
    double strength = 0.02 * charge[i];
    vx[i] = limited(vx[i] + strength * field_x[row][column], -0.9, 0.9);
    vy[i] = limited(vy[i] + strength * field_y[row][column], -0.9, 0.9);
}

static void move(int i) {
    px[i] += vx[i];
    if (px[i] < 0)
        px[i] += COLUMNS;
    if (px[i] >= COLUMNS)
        px[i] -= COLUMNS;
    py[i] += vy[i];
    if (py[i] < 0 && above() < 0) {
        py[i] = -py[i];
        vy[i] = -vy[i];
    }
    if (py[i] >= ROWS && below() < 0) {
        py[i] = 2 * ROWS - py[i] - 1e-9;
        vy[i] = -vy[i];
    }
}

/* Slow particles lose a part of their energy as heat. */
static void brake(int i) {
    double energy = 0.5 * (square(vx[i]) + square(vy[i]));
    if (energy > 0.02)
        return;
    int row = (int)limited(py[i], 0, ROWS - 1), column = (int)limited(px[i], 0, COLUMNS - 1);
    released[row][column] += 0.01 * energy;
    vx[i] *= 0.995;
    vy[i] *= 0.995;
}

static void push(void) {
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            released[y][x] = 0;
    for (int i = 0; i < particles; i++) {
        pull(i);
        brake(i);
        move(i);
    }
}

/* ---- particles that leave the band ----------------------------------------------------------- */

static void pack(int i, int way) {
    if (leaving_count[way] == PASSING) {
        fail("more particles leave than the buffer holds");
        return;
    }
    struct parcel *to = &leaving[way][leaving_count[way]++];
    to->x = px[i];
    to->y = way == 0 ? py[i] + ROWS : py[i] - ROWS;
    to->vx = vx[i];
    to->vy = vy[i];
    to->charge = charge[i];
    to->number = number[i];
}

static void unpack(const struct parcel *from) {
    if (particles == MOST) {
        fail("more particles arrive than the buffer holds");
        return;
    }
    px[particles] = from->x;
    py[particles] = limited(from->y, 0, ROWS - 1e-9);
    vx[particles] = from->vx;
    vy[particles] = from->vy;
    charge[particles] = from->charge;
    number[particles++] = from->number;
}

static void keep_at(int to, int from) {
    px[to] = px[from];
    py[to] = py[from];
    vx[to] = vx[from];
    vy[to] = vy[from];
    charge[to] = charge[from];
    number[to] = number[from];
}

static void send(int way, int pe) {
    shmem_putmem(arrived[1 - way], leaving[way], leaving_count[way] * sizeof(struct parcel), pe);
    shmem_long_put(&arrived_count[1 - way], &leaving_count[way], 1, pe);
}

/* Particles that go up enter from below there, one after the other, so that their order is
 * identical in every run. */
static void pass_on(void) {
    leaving_count[0] = leaving_count[1] = 0;
    arrived_count[0] = arrived_count[1] = 0;
    int kept = 0;
    for (int i = 0; i < particles; i++) {
        if (py[i] < 0)
            pack(i, 0);
        else if (py[i] >= ROWS)
            pack(i, 1);
        else
            keep_at(kept++, i);
    }
    particles = kept;
    shmem_barrier_all();
    if (above() >= 0)
        send(0, above());
    if (below() >= 0)
        send(1, below());
    shmem_barrier_all();
    for (int way = 0; way < 2; way++)
        for (long i = 0; i < arrived_count[way]; i++)
            unpack(&arrived[way][i]);
}

/* ---- sort: particles by cell ----------------------------------------------------------------- */

static int cell_of(int i) {
    int row = (int)limited(py[i], 0, ROWS - 1), column = (int)limited(px[i], 0, COLUMNS - 1);
    return row * COLUMNS + column;
}

static void count_cells(void) {
    for (int cell = 0; cell < CELLS + 1; cell++)
        cell_begin[cell] = 0;
    for (int i = 0; i < particles; i++)
        cell_begin[cell_of(i) + 1]++;
    for (int cell = 0; cell < CELLS; cell++)
        cell_begin[cell + 1] += cell_begin[cell];
}

static void find_slots(void) {
    for (int i = 0; i < particles; i++)
        slot[i] = cell_begin[cell_of(i)]++;
}

static void permute(double *values) {
    for (int i = 0; i < particles; i++)
        sorted_double[slot[i]] = values[i];
    memcpy(values, sorted_double, particles * sizeof *values);
}

static void permute_numbers(void) {
    for (int i = 0; i < particles; i++)
        sorted_number[slot[i]] = number[i];
    memcpy(number, sorted_number, particles * sizeof *number);
}

static void sort_by_cell(void) {
    count_cells();
    find_slots();
    permute(px);
    permute(py);
    permute(vx);
    permute(vy);
    permute(charge);
    permute_numbers();
}

/* ---- heat ------------------------------------------------------------------------------------ */

static void take_up(void) {
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            heat[y + 1][x] += released[y][x];
}

static void spread(void) {
    exchange(&heat[0][0], ROWS, COLUMNS);
    close_walls(&heat[0][0], ROWS, COLUMNS);
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            double around = heat[y - 1][x] + heat[y + 1][x] + heat[y][left_of(x, COLUMNS)] +
                            heat[y][right_of(x, COLUMNS)];
            heat_next[y][x] = heat[y][x] + 0.15 * (around - 4 * heat[y][x]);
        }
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            heat[y][x] = heat_next[y][x];
}

static void warm(void) {
    take_up();
    for (int i = 0; i < 3; i++)
        spread();
}

/* ---- reactions ------------------------------------------------------------------------------- */

/* Computes the reaction rate by heat. */
static void make_rates(void) {
    for (int i = 0; i < RATES; i++)
        rates[i] = 0.4 * exp(-2.0 / (0.05 + i * 4.0 / RATES));
}

static double rate(double at) {
    double where = limited(at, 0, 4) * RATES / 4.0;
    int low = (int)limited(where, 0, RATES - 2);
    double part = limited(where - low, 0, 1);
    return rates[low] * (1 - part) + rates[low + 1] * part;
}

/* Fuel becomes ash and heat; a part of the ash falls back. Two stages of Runge and Kutta. */
static void react_in(int y, int x) {
    double t = heat[y + 1][x], f = fuel[y][x], a = ash[y][x];
    double k = rate(t);
    double once = k * f - 0.01 * a;
    double k_half = rate(t + 0.25 * once);
    double twice = k_half * (f - 0.5 * once) - 0.01 * (a + 0.5 * once);
    fuel[y][x] = f - twice;
    ash[y][x] = a + twice;
    heat[y + 1][x] = t + 0.5 * twice;
}

static void react(void) {
    make_rates();
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            react_in(y, x);
}

/* ---- the spectrum: energies of all particles in order ---------------------------------------- */

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void find_energies(void) {
    for (int i = 0; i < particles; i++)
        energies[i] = 0.5 * (square(vx[i]) + square(vy[i]));
    qsort(energies, particles, sizeof *energies, by_size);
}

/* Chooses the splitters of a sample sort, identical on all PEs. */
static void choose_splitters(void) {
    for (int i = 0; i < SAMPLES; i++)
        sample[i] = particles ? energies[(long)i * particles / SAMPLES] : 0;
    shmem_barrier_all();
    shmem_double_fcollect(SHMEM_TEAM_WORLD, samples, sample, SAMPLES);
    qsort(samples, SAMPLES * pes, sizeof *samples, by_size);
    for (int pe = 1; pe < pes; pe++)
        splitter[pe - 1] = samples[pe * SAMPLES];
    splitter[pes - 1] = HUGE_VAL;
}

static void cut_buckets(void) {
    for (int pe = 0; pe < PES; pe++)
        bucket_count[pe] = 0;
    int pe = 0;
    for (int i = 0; i < particles; i++) {
        while (energies[i] >= splitter[pe])
            pe++;
        bucket_count[pe]++;
    }
    bucket_at[0] = 0;
    for (int next = 1; next < pes; next++)
        bucket_at[next] = bucket_at[next - 1] + bucket_count[next - 1];
}

/* Every PE announces the size of each bucket; the offsets at the receivers follow. */
static void send_buckets(void) {
    for (int pe = 0; pe < PES; pe++)
        offer[pe] = bucket_count[pe];
    shmem_barrier_all();
    shmem_long_alltoall(SHMEM_TEAM_WORLD, offered, offer, 1);
    received_count = 0;
    for (int pe = 0; pe < pes; pe++) {
        long here = offered[pe];
        offered[pe] = received_count; /* from here on: its offset */
        received_count += here;
    }
    if (received_count > MOST * 2) {
        fail("the buckets are too unlike");
        received_count = 0;
    }
    shmem_barrier_all();
    shmem_long_alltoall(SHMEM_TEAM_WORLD, offer, offered, 1);
    for (int pe = 0; pe < pes; pe++)
        if (offer[pe] + bucket_count[pe] <= MOST * 2)
            shmem_double_put(received + offer[pe], energies + bucket_at[pe], bucket_count[pe],
                             pe);
    shmem_barrier_all();
}

static void find_quantiles(struct record *into) {
    counts[0] = received_count;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &all_particles, &received_count, 1);
    ranks_before = 0;
    shmem_barrier_all();
    for (int pe = me + 1; pe < pes; pe++)
        shmem_long_atomic_add(&ranks_before, received_count, pe);
    for (int i = 0; i < QUANTILES; i++)
        sums[i] = 0;
    shmem_barrier_all();
    for (int i = 0; i < QUANTILES; i++) {
        long rank = all_particles * (2 * i + 1) / (2 * QUANTILES) - ranks_before;
        if (rank >= 0 && rank < received_count)
            sums[i] = received[rank];
    }
    sum_doubles(QUANTILES);
    for (int i = 0; i < QUANTILES; i++)
        into->quantile[i] = sums_all[i];
}

static void spectrum(struct record *into) {
    find_energies();
    choose_splitters();
    cut_buckets();
    send_buckets();
    qsort(received, received_count, sizeof *received, by_size);
    find_quantiles(into);
}

/* ---- traced particles ------------------------------------------------------------------------ */

/* PE 0 has the tracks; the PE that has a traced particle puts its position there. */
static void trace(void) {
    for (int i = 0; i < particles; i++) {
        uint64_t which = number[i] * TRACED / ((uint64_t)FIRST * PES);
        if (number[i] != which * FIRST * PES / TRACED)
            continue;
        double place[2] = {px[i], py[i] + (double)me * ROWS};
        shmem_double_put(track[which][step], place, 2, 0);
    }
    shmem_barrier_all();
}

/* ---- moments --------------------------------------------------------------------------------- */

static double field_energy(void) {
    double own = 0;
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++)
            own += 0.5 * (square(field_x[y][x]) + square(field_y[y][x]));
    return own;
}

static void sum_particles(void) {
    for (int i = 0; i < particles; i++) {
        sums[0] += 0.5 * (square(vx[i]) + square(vy[i]));
        sums[1] += vx[i];
        sums[2] += vy[i];
    }
}

static void sum_cells(void) {
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            sums[4] += heat[y + 1][x];
            sums[5] += fuel[y][x];
            sums[6] += ash[y][x];
            counts[1] += heat[y + 1][x] > 0.5;
        }
}

static void moments(struct record *into) {
    for (int i = 0; i < 16; i++)
        sums[i] = 0;
    for (int i = 0; i < 4; i++)
        counts[i] = 0;
    sum_particles();
    sums[3] = field_energy();
    sum_cells();
    counts[0] = particles;
    sum_doubles(7);
    sum_longs(2);
    into->kinetic = sums_all[0];
    into->momentum[0] = sums_all[1];
    into->momentum[1] = sums_all[2];
    into->field = sums_all[3];
    into->heat = sums_all[4];
    into->fuel = sums_all[5];
    into->ash = sums_all[6];
    into->particles = counts_all[0];
    into->cells_lit = counts_all[1];
    if (into->particles != (long)FIRST * pes)
        fail("particles were lost or made");
}

/* Returns the spread of the charge: the entropy of a histogram over all PEs. */
static double spread_of_charge(void) {
    for (int i = 0; i < BINS; i++)
        histogram[i] = 0;
    for (int y = 1; y <= ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            double where = (limited(density[y][x], -4, 4) + 4) * BINS / 8.0;
            histogram[(int)limited(where, 0, BINS - 1)]++;
        }
    shmem_barrier_all();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, histogram_all, histogram, BINS);
    double entropy = 0, all = (double)CELLS * pes;
    for (int i = 0; i < BINS; i++)
        if (histogram_all[i] > 0)
            entropy -= histogram_all[i] / all * log2(histogram_all[i] / all);
    return entropy;
}

/* ---- waves: the potential along the columns, by frequency ------------------------------------ */

enum { WAVES = 8 };
static double wave[2 * WAVES], wave_all[2 * WAVES];

/* Computes the mean of a band over its rows, times a wave of each frequency. */
static void find_waves(void) {
    for (int i = 0; i < 2 * WAVES; i++)
        wave[i] = 0;
    for (int x = 0; x < COLUMNS; x++) {
        double mean = 0;
        for (int y = 1; y <= ROWS; y++)
            mean += potential[y][x] / ROWS;
        for (int k = 0; k < WAVES; k++) {
            double angle = 2 * 3.14159265358979323846 * k * x / COLUMNS;
            wave[2 * k] += mean * cos(angle);
            wave[2 * k + 1] -= mean * sin(angle);
        }
    }
}

/* Returns the power of the strongest wave except the constant one. */
static double strongest_wave(void) {
    find_waves();
    shmem_barrier_all();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, wave_all, wave, 2 * WAVES);
    double most = 0;
    for (int k = 1; k < WAVES; k++) {
        double power = square(wave_all[2 * k]) + square(wave_all[2 * k + 1]);
        most = power > most ? power : most;
    }
    return most;
}

/* ---- order of the particles: pairs close to each other --------------------------------------- */

enum { NEAR = 16 };
static double pairs[NEAR], pairs_all[NEAR];

/* Counts pairs of a cell and of the next one by their distance. Needs particles sorted by cell. */
static void count_pairs(void) {
    for (int i = 0; i < NEAR; i++)
        pairs[i] = 0;
    count_cells();
    for (int cell = 0; cell + 1 < CELLS; cell++) {
        int from = cell_begin[cell], to = cell_begin[cell + 2 > CELLS ? CELLS : cell + 2];
        for (int one = from; one < cell_begin[cell + 1]; one++)
            for (int other = one + 1; other < to; other++) {
                double apart = sqrt(square(px[one] - px[other]) + square(py[one] - py[other]));
                int bin = (int)(apart * NEAR / 2.5);
                if (bin < NEAR)
                    pairs[bin] += charge[one] * charge[other];
            }
    }
}

/* Returns a negative value if unlike charges are nearer to each other than like ones. */
static double order(void) {
    count_pairs();
    shmem_barrier_all();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, pairs_all, pairs, NEAR);
    double all = 0;
    for (int i = 0; i < NEAR; i++)
        all += pairs_all[i] / (i + 1);
    return all;
}

/* ---- the flame's edge by rows ---------------------------------------------------------------- */

static double flame[ROWS], flames[ROWS * PES];

/* Finds the column at which half of the fuel of a row is burnt, for all rows of the box. */
static void find_flame(void) {
    for (int y = 0; y < ROWS; y++) {
        double burnt = 0, all = 0;
        for (int x = 0; x < COLUMNS; x++)
            all += ash[y][x];
        flame[y] = COLUMNS;
        for (int x = 0; x < COLUMNS; x++) {
            burnt += ash[y][x];
            if (burnt * 2 >= all) {
                flame[y] = x;
                break;
            }
        }
    }
    shmem_barrier_all();
    shmem_double_fcollect(SHMEM_TEAM_WORLD, flames, flame, ROWS);
}

/* Returns the bend of the flame's edge from row to row. */
static double bend_of_flame(void) {
    find_flame();
    double bend = 0;
    for (int y = 1; y < ROWS * pes; y++)
        bend += fabs(flames[y] - flames[y - 1]);
    return bend / (ROWS * pes);
}

/* ---- figures of merit of a step, in addition to its moments ---------------------------------- */

struct merit {
    double entropy, wave, order, bend;
};

static struct merit merits[STEPS];

static void judge(void) {
    struct merit now;
    now.entropy = spread_of_charge();
    now.wave = strongest_wave();
    now.order = order();
    now.bend = bend_of_flame();
    merits[step] = now;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void work(void) {
    struct record *into = &history[step % RECORDS];
    deposit();
    solve();
    find_field();
    push();
    pass_on();
    sort_by_cell();
    judge();
    warm();
    react();
    if (step % SORT_EVERY == 0)
        spectrum(into);
    else if (step > 0)
        memcpy(into->quantile, history[(step - 1) % RECORDS].quantile, sizeof into->quantile);
    moments(into);
    trace();
}

/* ---- the result ------------------------------------------------------------------------------ */

static uint64_t bits(double x) {
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static uint64_t digest(uint64_t sum, const double *values, long n) {
    for (long i = 0; i < n; i++)
        sum = mixed(sum ^ bits(values[i])) + (uint64_t)i;
    return sum;
}

static uint64_t digest_of_all(void) {
    uint64_t sum = 0;
    sum = digest(sum, px, particles);
    sum = digest(sum, py, particles);
    sum = digest(sum, vx, particles);
    sum = digest(sum, vy, particles);
    for (int y = 1; y <= ROWS; y++) {
        sum = digest(sum, potential[y], COLUMNS);
        sum = digest(sum, heat[y], COLUMNS);
    }
    for (int y = 0; y < ROWS; y++) {
        sum = digest(sum, fuel[y], COLUMNS);
        sum = digest(sum, ash[y], COLUMNS);
    }
    for (int i = 0; i < STEPS; i++) {
        sum = digest(sum, history[i % RECORDS].quantile, QUANTILES);
        sum = digest(sum, &history[i % RECORDS].kinetic, 5);
        sum = digest(sum, &merits[i].entropy, 4);
    }
    if (me == 0)
        for (int i = 0; i < TRACED; i++)
            sum = digest(sum, &track[i][0][0], 2 * STEPS);
    return sum;
}

static void tell(void) {
    const struct record *last = &history[(STEPS - 1) % RECORDS];
    printf("PE %d: %d particles, digest %016llx\n", me, particles,
           (unsigned long long)digest_of_all());
    if (me == 0)
        printf("plasma: ok kinetic %.9f field %.9f heat %.9f fuel %.9f ash %.9f median %.9f\n",
               last->kinetic, last->field, last->heat, last->fuel, last->ash,
               last->quantile[QUANTILES / 2]);
}

/* ---- the program ----------------------------------------------------------------------------- */

static int saved(void) {
    int *lost, *status;
    size_t n;
    if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS)
        return 1;
    shmem_query_fault(&lost, &status, &n);
    shmem_restart_pes(lost, n);
    shmem_barrier_all();
    free(lost);
    free(status);
    return 0;
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    if (pes != PES)
        fail("the program is built for another number of PEs: -DPES=");
    if (shmem_ft_algo_init()) {
        begin_particles();
        begin_cells();
    }
    for (;;) {
        if (!saved())
            continue;
        if (step == STEPS)
            break;
        work();
        step++;
    }
    tell();
    shmem_finalize();
    return 0;
}
