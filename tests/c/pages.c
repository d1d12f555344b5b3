/*
 * pages: says how much of the heap and of its checkpoint each PE has mapped by huge pages.
 *
 *     oshcc -o pages pages.c
 *     SHMEM_SYMMETRIC_SIZE=64M SHMEM_FT_BACKUP_MODE=raid5 oshrun -n 2 ./pages
 *
 * One line a PE: pages PE heap KIB store KIB
 */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <string.h>

enum { LIVE = 24 << 20 };

/* KiB under huge pages in mappings of memory files: those that hold `address`, or all others. */
static long huge(const void *address, int holds) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long from, to;
    long kib, sum = 0;
    int inside = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = strstr(line, "/memfd:") &&
                     holds == ((unsigned long)address >= from && (unsigned long)address < to);
        else if (inside && sscanf(line, "ShmemPmdMapped: %ld kB", &kib) == 1)
            sum += kib;
    }
    if (maps)
        fclose(maps);
    return sum;
}

int main(void) {
    shmem_init();
    shmem_ft_algo_init();
    char *live = shmem_malloc(LIVE);
    memset(live, shmem_my_pe(), LIVE);
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        return 1;
    printf("pages %d heap %ld store %ld\n", shmem_my_pe(), huge(live, 1), huge(live, 0));
    shmem_finalize();
    return 0;
}
