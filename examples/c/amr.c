/*
 * amr: heat in a plate under a moving laser, on a grid that is refined where the heat is steep.
 *
 * The plate consists of BLOCKS x BLOCKS blocks. A block of level l has BASE * 2^l cells along each
 * edge; levels of neighbours differ by one at most. Every PE knows the level and the owner of each
 * block, and only the owner has its cells. A time step publishes the cells along a block's edges,
 * and fetches those of its neighbours. Every REGRID steps blocks whose cells differ much are
 * refined, others are coarsened, and blocks move between PEs so that all have about as many cells.
 * A checkpoint follows.
 *
 * Checked: the plate holds the heat that the laser brought; its temperatures are, within 1 % of the
 * highest, those that a single PE computes on a uniform grid of the finest level; and they took
 * less than a fifth of the cells. The lines that make the program survive are marked `survival`.
 */
#include "survive.h" /* survival */

#include <string.h>

#ifndef PHASES
#define PHASES 10 /* each ends with a new grid and a checkpoint */
#endif
#ifndef BLOCKS
#define BLOCKS 12
#endif
enum {
    BASE = 4,
    LEVELS = 3, /* 0, 1, 2 */
    FINEST = BASE << (LEVELS - 1),
    COUNT = BLOCKS * BLOCKS,
    REGRID = 20,
    WIDTH = BLOCKS * FINEST /* of the uniform grid */
};
enum { LEFT, RIGHT, DOWN, UP, SIDES };
static const double STEP = 0.2 / WIDTH / WIDTH; /* of time: stable on the finest level */
static const double POWER = 0.05;               /* of the laser, at its centre in a step */

typedef struct {
    double edge[SIDES][FINEST];
} Edges;

/* Known to all PEs, and the same on all. */
static int level[COUNT], owner[COUNT], wanted[COUNT];
static long steps, updates; /* time steps, and cells that they computed on all PEs */
static int phase, checked;

/* Of the blocks that a PE owns. */
static double (*cells)[FINEST * FINEST], (*moved)[FINEST * FINEST];
static Edges *edges[2]; /* in turn, as others may still read those of the last step */

static int side_of(int l) {
    return BASE << l;
}

/* Returns the block beyond a side, or -1 at the edge of the plate. */
static int beyond(int block, int side) {
    int x = block % BLOCKS + (side == RIGHT) - (side == LEFT);
    int y = block / BLOCKS + (side == UP) - (side == DOWN);
    return x < 0 || y < 0 || x == BLOCKS || y == BLOCKS ? -1 : y * BLOCKS + x;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double size_of(double a) {
    return a > 0 ? a : -a;
}

/* Returns the heat that this place gets in a step from the laser, which crosses the plate. */
static double laser(double x, double y, long at) {
    double dx = x - 0.3 - 1e-3 * (double)at, dy = y - 0.4, far = (dx * dx + dy * dy) / 6e-3;
    return far > 1 ? 0 : (1 - far) * (1 - far) * POWER;
}

static int is_mine(int block) {
    return owner[block] == shmem_my_pe();
}

static void publish(int block) {
    int n = side_of(level[block]);
    const double *u = cells[block];
    Edges *to = &edges[steps % 2][block];
    for (int i = 0; i < n; i++) {
        to->edge[LEFT][i] = u[i * n];
        to->edge[RIGHT][i] = u[i * n + n - 1];
        to->edge[DOWN][i] = u[i];
        to->edge[UP][i] = u[(n - 1) * n + i];
    }
}

/*
 * Fetches the cells beyond a side, as many as the block has along it, and returns the share of heat
 * that flows: the distance of the cells' centres differs with the levels, and what one block loses
 * the other gets.
 */
static double fetch(int block, int side, double *row) {
    int other = beyond(block, side), n = side_of(level[block]), m;
    double there[FINEST];
    if (other < 0)
        return 0;
    m = side_of(level[other]);
    shmem_double_get(there, edges[steps % 2][other].edge[side ^ 1], (size_t)m, owner[other]);
    for (int i = 0; i < n; i++)
        row[i] = m == n ? there[i] : m < n ? there[i / 2] : (there[2 * i] + there[2 * i + 1]) / 2;
    return m == n ? 1 : m < n ? 1 / 1.5 : 1 / 0.75;
}

static double brought; /* heat, to my blocks */

static void advance(int block) {
    int n = side_of(level[block]);
    double h = 1.0 / (BLOCKS * n), share[SIDES], u[FINEST * FINEST];
    double row[SIDES][FINEST] = {{0}}; /* numbers beyond the plate too, of which no share counts */
    memcpy(u, cells[block], sizeof u);
    for (int side = 0; side < SIDES; side++)
        share[side] = fetch(block, side, row[side]);
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            double here = u[y * n + x], in = 0;
            in += x > 0 ? u[y * n + x - 1] - here : share[LEFT] * (row[LEFT][y] - here);
            in += x < n - 1 ? u[y * n + x + 1] - here : share[RIGHT] * (row[RIGHT][y] - here);
            in += y > 0 ? u[(y - 1) * n + x] - here : share[DOWN] * (row[DOWN][x] - here);
            in += y < n - 1 ? u[(y + 1) * n + x] - here : share[UP] * (row[UP][x] - here);
            double more = laser((block % BLOCKS + (x + 0.5) / n) / BLOCKS,
                                (block / BLOCKS + (y + 0.5) / n) / BLOCKS, steps);
            cells[block][y * n + x] = here + STEP / (h * h) * in + more;
            brought += more * h * h;
        }
}

static void step(void) {
    for (int block = 0; block < COUNT; block++)
        if (is_mine(block))
            publish(block);
    shmem_barrier_all();
    for (int block = 0; block < COUNT; block++) {
        if (is_mine(block))
            advance(block);
        updates += side_of(level[block]) * side_of(level[block]);
    }
    steps++;
}

/* Returns the level that suits a block: the steepest place decides, and where the laser will be. */
static int level_for(int block) {
    int n = side_of(level[block]);
    const double *u = cells[block];
    double steepest = 0;
    for (int i = 0; i < n * n; i++) {
        if (i % n > 0)
            steepest = larger(steepest, size_of(u[i] - u[i - 1]));
        if (i >= n)
            steepest = larger(steepest, size_of(u[i] - u[i - n]));
    }
    double x = (block % BLOCKS + 0.5) / BLOCKS, y = (block / BLOCKS + 0.5) / BLOCKS;
    if (laser(x, y, steps + REGRID / 2) > 0 || steepest > 0.06)
        return level[block] < LEVELS - 1 ? level[block] + 1 : level[block];
    return steepest < 0.015 && level[block] > 0 ? level[block] - 1 : level[block];
}

/* Copies a block to `moved`, one level finer or coarser or as it is. The heat stays the same. */
static void resize(int block, int to) {
    int n = side_of(level[block]), m = side_of(to);
    const double *u = cells[block];
    for (int y = 0; y < m; y++)
        for (int x = 0; x < m; x++) {
            double *cell = &moved[block][y * m + x];
            if (m <= n) {
                int k = n / m;
                const double *corner = &u[y * k * n + x * k];
                *cell = k == 1 ? *corner : (corner[0] + corner[1] + corner[n] + corner[n + 1]) / 4;
                continue;
            }
            /* A quarter of a cell from its centre, along slopes that are one-sided at edges. */
            int i = x / 2, j = y / 2, l = i > 0, r = i < n - 1, d = j > 0, t = j < n - 1;
            double across = (u[j * n + i + r] - u[j * n + i - l]) / (l + r);
            double along = (u[(j + t) * n + i] - u[(j - d) * n + i]) / (d + t);
            *cell = u[j * n + i];
            *cell += (x % 2 ? 0.25 : -0.25) * across + (y % 2 ? 0.25 : -0.25) * along;
        }
}

/* Gives each PE about as many cells, in the order of blocks. */
static void arrange(const int *levels, int *owners) {
    long all = 0, before = 0;
    for (int block = 0; block < COUNT; block++)
        all += side_of(levels[block]) * side_of(levels[block]);
    for (int block = 0; block < COUNT; block++) {
        owners[block] = (int)(before * shmem_n_pes() / all);
        before += side_of(levels[block]) * side_of(levels[block]);
    }
}

/* Decides on levels, of which those of neighbours differ by one at most, and moves the blocks. */
static void regrid(void) {
    static int mine[COUNT];
    int owners[COUNT], again = 1;
    for (int block = 0; block < COUNT; block++)
        mine[block] = is_mine(block) ? level_for(block) : 0;
    shmem_int_max_reduce(SHMEM_TEAM_WORLD, wanted, mine, COUNT);
    while (again--)
        for (int block = 0; block < COUNT; block++)
            for (int side = 0; side < SIDES; side++) {
                int other = beyond(block, side);
                if (other >= 0 && wanted[block] < wanted[other] - 1)
                    wanted[block] = wanted[other] - 1, again = 1;
            }
    arrange(wanted, owners);
    for (int block = 0; block < COUNT; block++)
        if (is_mine(block))
            resize(block, wanted[block]);
    shmem_barrier_all();
    for (int block = 0; block < COUNT; block++) {
        if (owners[block] == shmem_my_pe())
            shmem_getmem(cells[block], moved[block], sizeof *cells, owner[block]);
        level[block] = wanted[block];
        owner[block] = owners[block];
    }
}

static void set_up(void) {
    cells = symmetric(COUNT * sizeof *cells);
    moved = symmetric(COUNT * sizeof *moved);
    for (int turn = 0; turn < 2; turn++)
        edges[turn] = symmetric(COUNT * sizeof *edges[turn]);
    arrange(level, owner);
    for (int i = 1; i < LEVELS; i++) /* nothing but the laser is there yet */
        regrid();
}

/* Computes the same on a uniform grid, and returns the number of cells that differ too much. */
static uint64_t compare(void) {
    double (*grid)[WIDTH * WIDTH] = calloc(2, sizeof *grid);
    double highest = 0, got[FINEST * FINEST];
    uint64_t wrong = 0;
    if (!grid)
        shmem_global_exit(1);
    for (long at = 0; at < steps; at++)
        for (int i = 0; i < WIDTH * WIDTH; i++) {
            const double *u = &grid[at % 2][i];
            int x = i % WIDTH, y = i / WIDTH;
            double in = (x > 0 ? u[-1] - *u : 0) + (x < WIDTH - 1 ? u[1] - *u : 0) +
                        (y > 0 ? u[-WIDTH] - *u : 0) + (y < WIDTH - 1 ? u[WIDTH] - *u : 0);
            grid[(at + 1) % 2][i] = *u + STEP * WIDTH * WIDTH * in +
                                    laser((x + 0.5) / WIDTH, (y + 0.5) / WIDTH, at);
        }
    const double *u = grid[steps % 2];
    for (int i = 0; i < WIDTH * WIDTH; i++)
        highest = larger(highest, u[i]);
    for (int block = 0; block < COUNT; block++) {
        int n = side_of(level[block]), k = FINEST / n;
        shmem_getmem(got, cells[block], sizeof got, owner[block]);
        for (int i = 0; i < FINEST * FINEST; i++) {
            int x = i % FINEST, y = i / FINEST;
            int at = (block / BLOCKS * FINEST + y) * WIDTH + block % BLOCKS * FINEST + x;
            wrong += !(size_of(got[y / k * n + x / k] - u[at]) < 0.01 * highest);
        }
    }
    free(grid);
    return wrong;
}

static uint64_t wrong, checksum;

static void check(void) {
    uint64_t sum = 0, bits;
    double heat = 0;
    static double mine[2], all[2];
    for (int block = 0; block < COUNT; block++) {
        int n = side_of(level[block]);
        for (int i = 0; is_mine(block) && i < n * n; i++) {
            heat += cells[block][i] / (BLOCKS * n) / (BLOCKS * n);
            memcpy(&bits, &cells[block][i], sizeof bits);
            sum += part((uint64_t)(block * FINEST * FINEST + i), bits);
        }
    }
    mine[0] = heat, mine[1] = brought;
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, all, mine, 2);
    wrong = sum_of_all(shmem_my_pe() == 0 ? compare() : 0);
    wrong += !(size_of(all[0] - all[1]) < 1e-9 * all[1]);
    wrong += updates > steps * WIDTH * WIDTH / 5;
    checksum = sum_of_all(sum);
    checked = 1;
}

int main(void) {
    shmem_init();
    while (saved(), !checked) { /* survival */
        if (!cells)
            set_up();
        else if (phase == PHASES)
            check();
        else {
            for (int i = 0; i < REGRID; i++)
                step();
            regrid();
            phase++;
        }
    }
    return verdict("amr", wrong, checksum);
}
