/*
 * tiles: the product of two matrices as a task farm, in shrink mode: some PEs are lost and not
 * replaced.
 *
 *     SHMEM_FT_SUBSTITUTE=shrink SHMEM_FT_ROLLBACK=none oshrun -n 8 ./tiles TILES [PE@ROUND ..]
 *
 * A task computes one tile of the product, which has TILES by TILES tiles. Tiles of the factors and
 * of the product are in global arrays: each on its home, and again on a shadow, a member of the
 * team on another node (shmemx_ft_put2, shmemx_ft_shadow). After a loss the survivors form a new
 * team; a tile that had a copy on a lost PE gets another one from the remaining copy, and the tasks
 * that are not marked as done are handed out again: that is the next round. So a loss costs only
 * the task in progress on the lost PE. With PE@ROUND that PE kills itself in its first task of that
 * round, or at the end of the round.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 24, CELLS = SIDE * SIDE, MOST_PES = 64 };

typedef struct {
    double cells[CELLS];
    uint64_t done; /* updated last */
} tile_t;

enum { LEFT, RIGHT, PRODUCT, MATRICES };

static tile_t *matrix[MATRICES]; /* tiles by tiles of each */
static tile_t kept[MATRICES];    /* of one place, during settle() */
static long next_task, tasks_done;
static int tiles, all_tiles;

/* A team, and the members and shadows that hold the tiles. */
typedef struct {
    shmem_team_t team;
    int size, me;
    int pes[MOST_PES], shadows[MOST_PES]; /* numbers in the world team */
} members_t;

static members_t members_of(shmem_team_t team) {
    members_t m = {.team = team, .size = shmem_team_n_pes(team), .me = shmem_team_my_pe(team)};
    for (int i = 0; i < m.size; i++) {
        m.pes[i] = m.shadows[i] = shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD);
        if (m.size > 1)
            m.shadows[i] =
                shmem_team_translate_pe(team, shmemx_ft_shadow(team, i), SHMEM_TEAM_WORLD);
    }
    return m;
}

static int home(const members_t *m, int tile) {
    return m->pes[tile % m->size];
}

static int shadow(const members_t *m, int tile) {
    return m->shadows[tile % m->size];
}

static double element(int which, int row, int column) {
    return (double)((row * 31 + column * (17 + which) + which) % 23 - 11);
}

/* Stores both copies; the mark comes last. Ignores losses, which settle() handles. */
static void store(const members_t *m, int which, int at, tile_t *tile) {
    tile_t *to = &matrix[which][at];
    tile->done = 1;
    if (m->size == 1) {
        memcpy(to, tile, sizeof *tile);
        return;
    }
    shmemx_ft_put2(to->cells, tile->cells, sizeof tile->cells, home(m, at), shadow(m, at));
    shmemx_ft_put2(&to->done, &tile->done, sizeof tile->done, home(m, at), shadow(m, at));
}

/* Loads a tile from its home or its shadow; returns 0 if both are lost. */
static int load(const members_t *m, int which, int at, tile_t *tile) {
    const tile_t *from = &matrix[which][at];
    return shmemx_ft_get(tile, from, sizeof *tile, home(m, at)) == SHMEM_FT_SUCCESS ||
           shmemx_ft_get(tile, from, sizeof *tile, shadow(m, at)) == SHMEM_FT_SUCCESS;
}

static int multiply(const members_t *m, int task, tile_t *sum) {
    static tile_t left, right;
    memset(sum, 0, sizeof *sum);
    for (int k = 0; k < tiles; k++) {
        int from = task / tiles * tiles + k, to = k * tiles + task % tiles;
        if (!load(m, LEFT, from, &left) || !load(m, RIGHT, to, &right))
            return 0;
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++)
                for (int l = 0; l < SIDE; l++)
                    sum->cells[i * SIDE + j] +=
                        left.cells[i * SIDE + l] * right.cells[l * SIDE + j];
    }
    return 1;
}

static void die(void) {
    printf("PE %d dies after %ld tasks\n", shmem_my_pe(), tasks_done);
    raise(SIGKILL);
}

/* Does tasks until there are no more, or a PE is lost; the first one has this PE's number. */
static void work(const members_t *m, int dies) {
    static tile_t product;
    for (long task = m->me; task < all_tiles && !shmemx_ft_faulted();) {
        uint64_t done = 1;
        if (shmemx_ft_get(&done, &matrix[PRODUCT][task].done, sizeof done, home(m, (int)task)) ==
                SHMEM_FT_SUCCESS &&
            !done && multiply(m, (int)task, &product)) {
            if (dies)
                die();
            store(m, PRODUCT, (int)task, &product);
            tasks_done++;
        }
        task = shmem_long_atomic_fetch_inc(&next_task, m->pes[0]);
    }
    if (dies)
        die();
}

/* Fetches this PE's tiles, by the places in `now`, from a live place in `old`. */
static void settle(const members_t *old, const members_t *now) {
    for (int at = 0; at < all_tiles; at++) {
        if (home(now, at) != shmem_my_pe() && shadow(now, at) != shmem_my_pe())
            continue;
        for (int which = 0; which < MATRICES; which++) {
            int from[2] = {home(old, at), shadow(old, at)}, found = 0;
            memset(&kept[which], 0, sizeof kept[which]);
            for (int i = 0; i < 2; i++) {
                tile_t tile;
                if (shmemx_ft_get(&tile, &matrix[which][at], sizeof tile, from[i]) !=
                    SHMEM_FT_SUCCESS)
                    continue;
                if (!found++ || tile.done)
                    kept[which] = tile;
            }
            if (!found) {
                fprintf(stderr, "tile %d: both of its PEs, %d and %d, are lost\n", at, from[0],
                        from[1]);
                shmem_global_exit(4);
            }
            memcpy(&matrix[which][at], &kept[which], sizeof kept[which]);
        }
    }
}

/* After a loss, forms a team of the survivors in which every tile has its two places. */
static members_t go_on(members_t old) {
    shmem_team_t living = old.team;
    for (;;) {
        int *pes = NULL, *status = NULL;
        size_t n = 0;
        shmem_query_fault(&pes, &status, &n);
        shmem_restart_pes(pes, n);
        free(pes), free(status);
        shmem_team_t next = SHMEM_TEAM_INVALID;
        if (shmemx_ft_shrink(living, &next) != SHMEM_FT_SUCCESS)
            shmem_global_exit(5);
        if (living != old.team)
            shmem_team_destroy(living);
        living = next;
        members_t now = members_of(living);
        settle(&old, &now);
        if (shmem_team_sync(living) == 0) {
            if (old.team != SHMEM_TEAM_WORLD)
                shmem_team_destroy(old.team);
            return now;
        }
    }
}

/* Checks every tile in both places against sums of whole numbers, which are exact. */
static long wrong(const members_t *m) {
    static tile_t tile;
    long count = 0;
    int side = tiles * SIDE;
    for (int at = m->me; at < all_tiles; at += m->size)
        for (int copy = 0; copy < 2; copy++) {
            int pe = copy ? shadow(m, at) : home(m, at);
            shmem_getmem(&tile, &matrix[PRODUCT][at], sizeof tile, pe);
            for (int cell = 0; cell < CELLS; cell++) {
                int i = at / tiles * SIDE + cell / SIDE, j = at % tiles * SIDE + cell % SIDE;
                double sum = 0;
                for (int k = 0; k < side; k++)
                    sum += element(LEFT, i, k) * element(RIGHT, k, j);
                count += sum != tile.cells[cell];
            }
        }
    return count;
}

static void fill(const members_t *m) {
    static tile_t tile;
    for (int at = m->me; at < all_tiles; at += m->size)
        for (int which = LEFT; which <= RIGHT; which++) {
            for (int cell = 0; cell < CELLS; cell++)
                tile.cells[cell] = element(which, at / tiles * SIDE + cell / SIDE,
                                           at % tiles * SIDE + cell % SIDE);
            store(m, which, at, &tile);
        }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    tiles = argc > 1 ? atoi(argv[1]) : 6;
    all_tiles = tiles * tiles;
    if (tiles < 1 || tiles > 64 || shmem_n_pes() > MOST_PES) {
        fprintf(stderr, "tiles: expected 1 to 64 tiles, and at most %d PEs\n", MOST_PES);
        shmem_global_exit(2);
    }
    int pe = 0, at = 0, dies_in = -1;
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "%d@%d", &pe, &at) == 2 && pe == shmem_my_pe())
            dies_in = at;
    for (int which = 0; which < MATRICES; which++)
        matrix[which] = shmem_calloc((size_t)all_tiles, sizeof(tile_t));
    members_t m = members_of(SHMEM_TEAM_WORLD);
    fill(&m);
    shmem_barrier_all();
    for (int round = 0;; round++) {
        next_task = m.size;
        int ready = shmem_team_sync(m.team) == 0;
        if (ready)
            work(&m, dies_in == round);
        if (ready && shmem_team_sync(m.team) == 0)
            break;
        m = go_on(m);
    }
    printf("PE %d did %ld tasks\n", shmem_my_pe(), tasks_done);
    static long own, total;
    own = wrong(&m);
    if (shmem_long_sum_reduce(m.team, &total, &own, 1) == 0 && m.me == 0)
        printf("tiles: %d tiles, %ld cells wrong, %d PEs at the end\n", all_tiles, total, m.size);
    shmem_finalize();
    return total != 0;
}
