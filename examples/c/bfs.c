/*
 * bfs: breadth-first searches in a large random graph, after the Graph500 benchmark.
 *
 * The edges are those of a Kronecker graph with Graph500's probabilities, its vertices renumbered
 * at random: few have very many edges. Vertices are distributed cyclically. Each PE generates a
 * part of the edges and puts each to the PEs of its two vertices, which sort them. A search goes
 * level by level: a PE walks the edges of its vertices of the current level and claims each
 * unvisited neighbour, on the neighbour's PE, with a compare-and-swap; the winning vertex is its
 * parent, and the PE appends it to the next level there (an atomic increment for the position, a
 * put for the number). Parents differ from run to run, but levels do not. Each search starts at
 * another vertex, and a checkpoint follows. The lines that make the program survive are marked
 * `survival`.
 *
 * Checked by Graph500's rules, with edges that are generated again: following parents leads to the
 * first vertex, without a cycle; the ends of each edge are at most one level apart, or neither was
 * reached; and each vertex has an edge to its parent.
 */
#include "survive.h" /* survival */

#ifndef SCALE
#define SCALE 11
#endif
#ifndef SEARCHES
#define SEARCHES 8
#endif
enum { EDGE_FACTOR = 16, MOST_LEVELS = 64 };
#define VERTICES (1l << SCALE)
#define EDGES (VERTICES * EDGE_FACTOR)
#define NONE (-1l)

typedef struct {
    int from, to;
} Edge;

static long searches;        /* done, and found to be right */
static long arrived;         /* edges in `edges`; reserved by all */
static long waiting, coming; /* vertices of this level and of the next; all append to the latter */
static Edge *edges;          /* of my vertices, sorted; each lies at both its ends */
static int *first;           /* the first of each vertex; and the end of the last one's */
static long *queue, *next;
static long *parent; /* of my vertices, or NONE */
static long *joined; /* edges between a vertex and its parent that a check has found */
static uint64_t wrong, checksum;

static int pe_of(long v) {
    return (int)(v % shmem_n_pes());
}

static long place_of(long v) {
    return v / shmem_n_pes();
}

static long queue_len(void) {
    return VERTICES / shmem_n_pes() + 1;
}

static long edges_len(void) {
    return 4 * EDGES / shmem_n_pes();
}

/* Renumbers a vertex, one to one, so that those with many edges are spread. */
static int renumbered(uint64_t v) {
    for (int i = 0; i < 3; i++) {
        v = (v * 0x9e3779b97f4a7c15u + 0x165667b1u) & (VERTICES - 1);
        v ^= v >> (SCALE / 2);
    }
    return (int)v;
}

static Edge edge(long number) {
    uint64_t from = 0, to = 0;
    for (int bit = 0; bit < SCALE; bit++) {
        uint64_t chance = mix((uint64_t)(number * SCALE + bit) + 0x5851f42d4c957f2du) % 100;
        from = from << 1 | (chance >= 57 + 19);
        to = to << 1 | ((chance >= 57 && chance < 57 + 19) || chance >= 57 + 19 + 19);
    }
    return (Edge){renumbered(from), renumbered(to)};
}

static long my_first_edge(int pe) {
    return EDGES * pe / shmem_n_pes();
}

static int in_order(const void *left, const void *right) {
    const Edge *a = left, *b = right;
    return a->from != b->from ? (a->from > b->from) - (a->from < b->from)
                              : (a->to > b->to) - (a->to < b->to);
}

/* Puts the edges of my part to their PEs, all of one PE together. */
static void send_edges(void) {
    long begin = my_first_edge(shmem_my_pe()), end = my_first_edge(shmem_my_pe() + 1);
    Edge *out = malloc(2 * (size_t)(end - begin) * sizeof *out);
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        long n = 0;
        for (long i = begin; i < end; i++) {
            Edge e = edge(i);
            if (e.from != e.to && pe_of(e.from) == pe)
                out[n++] = e;
            if (e.from != e.to && pe_of(e.to) == pe)
                out[n++] = (Edge){e.to, e.from};
        }
        long at = shmem_long_atomic_fetch_add(&arrived, n, pe);
        if (at + n > edges_len())
            shmem_global_exit(1);
        shmem_putmem(&edges[at], out, (size_t)n * sizeof *out, pe);
    }
    free(out);
}

static void build_graph(void) {
    edges = symmetric((size_t)edges_len() * sizeof *edges);
    first = symmetric((size_t)(queue_len() + 1) * sizeof *first);
    queue = symmetric((size_t)queue_len() * sizeof *queue);
    next = symmetric((size_t)queue_len() * sizeof *next);
    parent = symmetric((size_t)queue_len() * sizeof *parent);
    joined = symmetric((size_t)queue_len() * sizeof *joined);
    send_edges();
    shmem_barrier_all();
    qsort(edges, (size_t)arrived, sizeof *edges, in_order);
    long kept = 0;
    for (long i = 0; i < arrived; i++)
        if (kept == 0 || in_order(&edges[kept - 1], &edges[i]) != 0)
            edges[kept++] = edges[i];
    for (long v = 0, i = 0; v <= queue_len(); v++) {
        while (i < kept && place_of(edges[i].from) < v)
            i++;
        first[v] = (int)i;
    }
    shmem_barrier_all();
}

/* Returns the vertex at which a search starts: one that has edges, unless a PE is lost. */
static long root_of(long search) {
    for (uint64_t i = 0;; i++) {
        long v = (long)(mix((uint64_t)search << 32 | i) % VERTICES);
        int *here = &first[place_of(v)], begin = shmem_int_g(here, pe_of(v));
        if (shmem_int_g(here + 1, pe_of(v)) > begin || i > 1000)
            return v;
    }
}

/* Claims the neighbours of a vertex; those that this PE tried to claim before are taken. */
static void visit(long v, char *tried) {
    for (int i = first[place_of(v)]; i < first[place_of(v) + 1]; i++) {
        long to = edges[i].to;
        int pe = pe_of(to);
        if (tried[to])
            continue;
        tried[to] = 1;
        if (shmem_long_atomic_compare_swap(&parent[place_of(to)], NONE, v, pe) == NONE) {
            long at = shmem_long_atomic_fetch_inc(&coming, pe);
            if (at >= 0 && at < queue_len())
                shmem_long_p(&next[at], to, pe);
        }
    }
}

static void search(void) {
    long root = root_of(searches), found = 1;
    char *tried = calloc((size_t)VERTICES, 1);
    for (long v = 0; v < queue_len(); v++)
        parent[v] = NONE;
    waiting = coming = 0;
    if (shmem_my_pe() == pe_of(root)) {
        parent[place_of(root)] = root;
        queue[waiting++] = root;
    }
    for (int level = 0; found > 0 && level < MOST_LEVELS; level++) { /* it ends without a PE, too */
        shmem_barrier_all();
        for (long i = 0; i < waiting; i++)
            visit(queue[i], tried);
        shmem_barrier_all();
        long *swap = queue;
        queue = next, next = swap;
        waiting = coming < queue_len() ? coming : queue_len();
        coming = 0;
        found = (long)sum_of_all((uint64_t)waiting);
    }
    free(tried);
}

/* Sets the level of a vertex by those of its parents; returns 1 if they do not lead to the root. */
static uint64_t climb(long v, const long *parents, long *level) {
    long top = v, steps = 0;
    for (; level[top] == NONE && parents[top] != NONE && steps <= VERTICES; steps++)
        top = parents[top];
    if (level[top] == NONE)
        return 1;
    for (long at = level[top] + steps; level[v] == NONE; v = parents[v])
        level[v] = at--;
    return 0;
}

/* Checks the tree of a search by my part of the edges, and adds my vertices to the checksum. */
static uint64_t check(void) {
    size_t bytes = (size_t)(queue_len() * shmem_n_pes()) * sizeof(long);
    long *parents = malloc(bytes), *level = malloc(bytes), *theirs = malloc(bytes);
    uint64_t bad = 0;
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        shmem_long_get(theirs, parent, (size_t)queue_len(), pe);
        for (long v = pe; v < VERTICES; v += shmem_n_pes())
            parents[v] = theirs[place_of(v)];
    }
    for (long v = 0; v < VERTICES; v++)
        level[v] = parents[v] == v ? 0 : NONE;
    for (long v = 0; v < VERTICES; v++)
        bad += parents[v] != NONE ? climb(v, parents, level) : 0;
    for (long i = my_first_edge(shmem_my_pe()); i < my_first_edge(shmem_my_pe() + 1); i++) {
        Edge e = edge(i);
        bad += (level[e.from] == NONE) != (level[e.to] == NONE);
        bad += labs(level[e.from] - level[e.to]) > 1;
        if (parents[e.from] == e.to)
            shmem_long_atomic_inc(&joined[place_of(e.from)], pe_of(e.from));
        if (parents[e.to] == e.from)
            shmem_long_atomic_inc(&joined[place_of(e.to)], pe_of(e.to));
    }
    shmem_barrier_all();
    for (long v = shmem_my_pe(); v < VERTICES; v += shmem_n_pes()) {
        bad += level[v] > 0 && joined[place_of(v)] == 0;
        joined[place_of(v)] = 0;
        checksum += part((uint64_t)(searches * VERTICES + v), (uint64_t)level[v]);
    }
    free(parents), free(level), free(theirs);
    return bad;
}

int main(void) {
    shmem_init();
    while (saved(), searches < SEARCHES) { /* survival */
        if (!edges) {
            build_graph();
        } else {
            search();
            wrong += sum_of_all(check());
            if (++searches == SEARCHES)
                checksum = sum_of_all(checksum);
        }
    }
    return verdict("bfs", wrong, checksum);
}
