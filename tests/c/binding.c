/*
 * binding: prints each PE's CPUs and the NUMA placement of its symmetric heap and store. It fails
 * if a page is not on the NUMA node of its owner's processors although these are all on one node.
 *
 * A neighbour touches the pages of the heap first, so that the binding, not the first touch,
 * decides their placement. The store's pages are whatever else this process has mapped, after a
 * checkpoint, of its part of the heap's file. Run it on the machine in question:
 *
 *     oshcc -o binding binding.c && oshrun --report-placement -n 4 ./binding
 *
 * One line per PE: binding PE cpus LIST near NODE pages COUNT there COUNT store COUNT there COUNT
 * (near -1: the processors are on several nodes, or the kernel knows of none).
 */
#include "numa.h"

/* A mapping of this process. */
struct range {
    unsigned long start, end, offset, file;
};

/* Reads the next mapping that is part of a file; returns 0 after the last. */
static int next_range(FILE *maps, struct range *range) {
    char line[1024];
    const char *shape = "%lx-%lx %*s %lx %*s %lu";
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, shape, &range->start, &range->end, &range->offset, &range->file) == 4 &&
            range->file != 0)
            return 1;
    return 0;
}

/* Returns the mapping that contains an address; without one, its file is 0. */
static struct range range_of(FILE *maps, const char *address) {
    struct range seen, none = {0, 0, 0, 0};
    rewind(maps);
    while (next_range(maps, &seen))
        if (seen.start <= (unsigned long)address && (unsigned long)address < seen.end)
            return seen;
    return none;
}

/* Counts the pages after the heap in the PE's own part of the same file: PE k of a node has the
 * k-th part, and the distance between two heaps is the length of a part. */
static void store(char *heap, int node, size_t *mapped, size_t *there) {
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps)
        return;
    struct range seen, own = range_of(maps, heap);
    unsigned long part = -1ul;
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        char *other = shmem_ptr(heap, pe);
        seen = other ? range_of(maps, other) : own;
        unsigned long apart = seen.offset > own.offset ? seen.offset - own.offset
                                                       : own.offset - seen.offset;
        if (seen.file == own.file && apart != 0 && apart < part)
            part = apart;
    }
    unsigned long end = part == -1ul ? part : own.offset / part * part + part;
    rewind(maps);
    while (next_range(maps, &seen))
        if (seen.file == own.file && seen.offset > own.offset && seen.offset < end)
            count((char *)seen.start, (seen.end - seen.start) / PAGE, node, mapped, there);
    fclose(maps);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    shmem_init();
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    char *heap = shmem_align(PAGE, (size_t)PAGES * PAGE), list[256];
    static char pattern[PAGE];
    memset(pattern, 1, sizeof pattern);
    for (int page = 0; page < PAGES; page++)
        shmem_putmem(heap + (size_t)page * PAGE, pattern, PAGE, next);
    shmem_barrier_all();

    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    allowed(list, sizeof list);
    int node = near(&mask);
    size_t mapped = 0, there = 0, stored = 0, stored_there = 0;
    for (int page = 0; page < PAGES; page++)
        (void)*(volatile char *)(heap + (size_t)page * PAGE); /* reading it maps it here */
    count(heap, PAGES, node, &mapped, &there);
    if (mapped == 0)
        node = -1;
    int saved = shmem_checkpoint_all() == SHMEM_FT_SUCCESS;
    store(heap, node, &stored, &stored_there);
    printf("binding %d cpus %s near %d pages %d there %zu", me, list, node, PAGES, there);
    printf(" store %zu there %zu\n", stored, stored_there);
    fflush(stdout);
    shmem_barrier_all();
    shmem_finalize();
    return !saved || (node >= 0 && (there != PAGES || stored_there != stored));
}
