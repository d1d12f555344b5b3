/*
 * tables: symmetric memory that contains addresses, as C++ makes them: objects with tables of
 * functions, in variables and on the heap, functions of libc, and pointers between them. Whichever
 * PE is lost, it reaches the same sums. With an argument the program itself stores no address.
 */
#include "restart.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 6, SHAPES = 64 };

struct shape;
struct table {
    long (*area)(struct shape const *);
    void (*grow)(struct shape *, long);
    char const *name;
};
struct shape {
    struct table const *table;
    struct shape *next;
    long side;
};

static long square(struct shape const *it) {
    return it->side * it->side;
}
static long line(struct shape const *it) {
    return it->side;
}
static void by_sum(struct shape *it, long by) {
    it->side += by;
}
static void by_product(struct shape *it, long by) {
    it->side *= by;
}

static struct table const tables[] = {{square, by_sum, "square"}, {line, by_product, "line"}};
static struct table changed = {line, by_sum, "changed"};
static struct shape first = {&tables[0], NULL, 3};
static struct shape *all;
static long (*magnitude)(long);
static long step, sum;

int main(int count, char **words) {
    (void)words;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), plain = count > 1;
    struct shape *heap = shmem_calloc(SHAPES, sizeof *heap);
    for (int i = 0; i < SHAPES && !plain; i++) {
        heap[i] = (struct shape){i % 3 ? &tables[i % 2] : &changed, all ? all : &first, me + i};
        all = &heap[i];
    }
    magnitude = plain ? NULL : labs;
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            shmem_barrier_all();
            continue;
        }
        if (step == STEPS)
            break;
        long own = step + 1;
        for (struct shape *it = all; it; it = it->next) {
            it->table->grow(it, 2 + step);
            own += it->table->area(it) % 1000003 + it->table->name[0];
            if (step == 2)
                it->table = &tables[it->side % 2];
        }
        own = magnitude ? magnitude(-own) : own;
        shmem_long_atomic_add(&sum, own, (me + 1) % n);
        step++;
        shmem_barrier_all();
    }
    printf("PE %d: %ld\n", me, sum);
    shmem_finalize();
    return 0;
}
