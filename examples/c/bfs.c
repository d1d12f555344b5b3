/*
 * bfs: the distance of each vertex of a graph from the first one, one level at a time.
 *
 * Vertices are distributed cyclically. A PE walks the edges of its vertices of the current level
 * and claims each unvisited neighbour, on the neighbour's PE, with a compare-and-swap; the winner
 * appends it to that PE's next level (an atomic increment for the position, a put for the number).
 * The winning PE differs from run to run, but the levels do not.
 *
 * Checked: the ends of an edge are at most one level apart, every vertex but the first has a
 * neighbour one level nearer, and the number of reached vertices is the sum of all levels.
 */
#include "survive.h"

enum { VERTICES = 6000, DEGREE = 4, UNSEEN = 0 };

static long level;        /* vertices of `queue` are at level `level`, counted from one */
static long waiting;      /* their number */
static long coming;       /* vertices of the next level in `next`; written by all */
static long total;        /* vertices reached so far, on all PEs */
static int done;
static long *queue, *next;
static long *seen;        /* level of my vertices, or UNSEEN */

/* Edges are undirected: vertex v is joined to v +- step for some steps, if that vertex exists. */
static long neighbour(long v, int edge) {
    static const long steps[DEGREE] = {1, -1, 77, -77};
    long to = v + steps[edge];
    if (edge < 2 && mix((uint64_t)(v < to ? v : to)) % 3 == 0)
        return -1; /* every third of the short edges is missing */
    return to >= 0 && to < VERTICES ? to : -1;
}

static int pe_of(long v) {
    return (int)(v % shmem_n_pes());
}

static long queue_len(void) {
    return VERTICES / shmem_n_pes() + 1;
}

static void set_up(void) {
    queue = symmetric((size_t)queue_len() * sizeof *queue);
    next = symmetric((size_t)queue_len() * sizeof *next);
    seen = symmetric((size_t)queue_len() * sizeof *seen);
    level = 1;
    if (shmem_my_pe() == 0) {
        queue[0] = 0;
        waiting = 1;
        seen[0] = 1;
    }
    total = 1;
}

static void visit(long v) {
    for (int edge = 0; edge < DEGREE; edge++) {
        long to = neighbour(v, edge);
        if (to < 0)
            continue;
        int pe = pe_of(to);
        long *mark = &seen[to / shmem_n_pes()];
        if (shmem_long_atomic_compare_swap(mark, UNSEEN, level + 1, pe) == UNSEEN) {
            long at = shmem_long_atomic_fetch_inc(&coming, pe);
            if (at >= 0 && at < queue_len())
                shmem_long_p(&next[at], to, pe);
        }
    }
}

static void step(void) {
    shmem_barrier_all();
    for (long i = 0; i < waiting; i++)
        visit(queue[i]);
    shmem_barrier_all();
    long *swap = queue;
    queue = next, next = swap;
    waiting = coming < queue_len() ? coming : queue_len();
    coming = 0;
    level++;
    long found = (long)sum_of_all((uint64_t)waiting);
    total += found;
    done = found == 0;
}

static uint64_t check(void) {
    uint64_t wrong = 0;
    for (long v = shmem_my_pe(); v < VERTICES; v += shmem_n_pes()) {
        long mine = seen[v / shmem_n_pes()], nearer = v == 0;
        for (int edge = 0; edge < DEGREE; edge++) {
            long to = neighbour(v, edge);
            if (to < 0)
                continue;
            long theirs = shmem_long_g(&seen[to / shmem_n_pes()], pe_of(to));
            wrong += (theirs == UNSEEN) != (mine == UNSEEN) || labs(theirs - mine) > 1;
            nearer |= theirs == mine - 1;
        }
        wrong += mine != UNSEEN && !nearer;
    }
    return wrong;
}

static uint64_t wrong, checksum;
static int checked;

static void check_all(void) {
    uint64_t sum = 0, reached = 0;
    for (long v = shmem_my_pe(); v < VERTICES; v += shmem_n_pes()) {
        sum += part((uint64_t)v, (uint64_t)seen[v / shmem_n_pes()]);
        reached += seen[v / shmem_n_pes()] != UNSEEN;
    }
    wrong = sum_of_all(check()) + (sum_of_all(reached) != (uint64_t)total);
    checksum = sum_of_all(sum);
    checked = 1;
}

int main(void) {
    shmem_init();
    while (saved(), !checked) {
        if (!queue)
            set_up();
        else if (done)
            check_all();
        else
            for (int i = 0; i < 12 && !done; i++)
                step();
    }
    return verdict("bfs", wrong, checksum);
}
