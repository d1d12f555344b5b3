/*
 * moved: each PE prints at the end the processors it may use, the number of times that the kernel
 * migrated it since its start, and the placement of its heap's pages, although some PEs were lost
 * on the way.
 *
 * One line per PE: moved PE cpus LIST near NODE pages COUNT there COUNT migrations COUNT
 */
#include "numa.h"

#include "test.h"

enum { STEPS = 5 };

static long step;
static char *heap;

static void same(void) {
    CHECK(step >= 1 && step <= STEPS);
    for (int page = 0; page < PAGES; page++)
        CHECK(heap[(size_t)page * PAGE] == (char)page);
}

/* Returns the number of migrations, or 0 if the kernel does not report it. */
static long migrations(void) {
    FILE *sched = fopen("/proc/self/sched", "r");
    char line[256];
    long found = 0;
    while (sched && fgets(line, sizeof line, sched))
        (void)sscanf(line, "se.nr_migrations : %ld", &found);
    if (sched)
        fclose(sched);
    return found;
}

int main(void) {
    shmem_init();
    long before = migrations();
    heap = shmem_align(PAGE, (size_t)PAGES * PAGE);
    for (int page = 0; shmem_ft_algo_init() && page < PAGES; page++)
        heap[(size_t)page * PAGE] = (char)page;
    while (step < STEPS) {
        step++;
        saved(same);
    }
    same();
    long moves = migrations() - before;
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    char list[256];
    allowed(list, sizeof list);
    int node = near(&mask);
    size_t mapped = 0, there = 0;
    count(heap, PAGES, node, &mapped, &there);
    printf("moved %d cpus %s near %d ", shmem_my_pe(), list, node);
    printf("pages %zu there %zu migrations %ld\n", mapped, there, moves);
    shmem_finalize();
    return 0;
}
