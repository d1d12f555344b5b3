/*
 * binding: says where each PE may run and where the pages of its symmetric heap and of its store
 * are, and fails if a page is not on the NUMA node of its owner's processors although these are all
 * on one node.
 *
 * The pages of the heap are touched by a neighbour first, so that it is the binding that decides
 * where they are, and not who came first. Those of the store are what else this process has mapped
 * of its part of the file that the heap lies in, after a checkpoint. Run it on the machine in
 * question:
 *
 *     oshcc -o binding binding.c && oshrun --report-placement -n 4 ./binding
 *
 * One line a PE: binding PE cpus LIST near NODE pages COUNT there COUNT store COUNT there COUNT
 * (near -1: the processors are on several nodes, or the kernel knows of none).
 */
#include "numa.h"

/* A mapping of this process. */
struct range {
    unsigned long start, end, offset, file;
};

/* The next mapping that is part of a file; 0 after the last. */
static int next_range(FILE *maps, struct range *range) {
    char line[1024];
    const char *shape = "%lx-%lx %*s %lx %*s %lu";
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, shape, &range->start, &range->end, &range->offset, &range->file) == 4 &&
            range->file != 0)
            return 1;
    return 0;
}

/* The mapping that an address is in; of file 0 if that is none. */
static struct range range_of(FILE *maps, const char *address) {
    struct range seen, none = {0, 0, 0, 0};
    rewind(maps);
    while (next_range(maps, &seen))
        if (seen.start <= (unsigned long)address && (unsigned long)address < seen.end)
            return seen;
    return none;
}

/* The pages behind those that the heap is mapped with, in the same file and in the PE's own part of
 * it: PE k of a node has the k-th part, and heaps are as far from each other as these are long. */
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
        (void)*(volatile char *)(heap + (size_t)page * PAGE); /* mapped here by looking at it */
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
