/*
 * pages: prints how much of each PE's heap and checkpoint is mapped by huge pages.
 *
 *     oshcc -o pages pages.c
 *     SHMEM_SYMMETRIC_SIZE=64M SHMEM_FT_BACKUP_MODE=raid5 oshrun -n 2 ./pages
 *
 * Makes three checkpoints, changes the data between them, and checks every byte at the end. One
 * line per PE: pages PE heap KIB store KIB
 */
#include "test.h"

enum { LIVE = 24 << 20, CHECKPOINTS = 3 };

static int step;

/* Counts KiB in huge pages in mappings of the memory that holds `address`: in the mapping that
 * contains it, and in all others that are writable. */
static void huge(const void *address, long kib[2]) {
    char line[512];
    char may[5];
    unsigned long from, to, inode, own = 0;
    long size;
    for (int pass = 0; pass < 2; pass++) {
        FILE *maps = fopen("/proc/self/smaps", "r");
        int part = -1;
        while (maps && fgets(line, sizeof line, maps)) {
            if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, may, &inode) == 4) {
                int holds = (unsigned long)address >= from && (unsigned long)address < to;
                if (holds)
                    own = inode;
                part = inode != own || may[1] != 'w' ? -1 : !holds;
            } else if (pass && part >= 0 && sscanf(line, "ShmemPmdMapped: %ld kB", &size) == 1) {
                kib[part] += size;
            }
        }
        if (maps)
            fclose(maps);
    }
}

int main(void) {
    shmem_init();
    unsigned char *live = shmem_malloc(LIVE);
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (step == CHECKPOINTS)
            break;
        step++;
        for (size_t i = 0; i < LIVE; i++)
            live[i] = (unsigned char)(i * 31 + step * 7 + shmem_my_pe());
        shmem_barrier_all();
    }
    for (size_t i = 0; i < LIVE; i++)
        CHECK(live[i] == (unsigned char)(i * 31 + step * 7 + shmem_my_pe()));
    long kib[2] = {0, 0};
    huge(live, kib);
    printf("pages %d heap %ld store %ld\n", shmem_my_pe(), kib[0], kib[1]);
    shmem_finalize();
    return 0;
}
