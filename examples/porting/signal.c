/* signal: blocks pass from PE to PE. A signal word holds the number of a block; a PE derives the
 * number that it waits for from its own step. Words, blocks and steps roll back together. */
#include "../c/survive.h"

#include <string.h>

enum { BLOCKS = 60, BETWEEN = 10, WORDS = 256 };

static uint64_t block[WORDS]; /* from the left neighbour */
static uint64_t arrived;      /* number of the block there, set by the left neighbour */
static uint64_t taken;        /* number of the last block that the right neighbour has taken */
static unsigned long done;
static uint64_t checksum;

static void pass(uint64_t number, int me, int n) {
    uint64_t own[WORDS];
    for (uint64_t i = 0; me == 0 && i < WORDS; i++)
        own[i] = mix(number * WORDS + i);
    if (me > 0) {
        shmem_signal_wait_until(&arrived, SHMEM_CMP_GE, number);
        memcpy(own, block, sizeof own);
        shmem_signal_set(&taken, number, me - 1);
    }
    for (uint64_t i = 0; i < WORDS; i++)
        checksum += part(number * WORDS + i, own[i] += (uint64_t)me);
    if (me < n - 1) {
        shmem_signal_wait_until(&taken, SHMEM_CMP_GE, number - 1);
        shmem_putmem_signal(block, own, sizeof own, &arrived, number, SHMEM_SIGNAL_SET, me + 1);
    }
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    while (saved(), done < BLOCKS)
        for (int i = 0; i < BETWEEN; i++)
            pass(++done, me, n);
    uint64_t all = sum_of_all(checksum);
    if (me == 0)
        printf("signal: %lu blocks, checksum %016llx\n", done, (unsigned long long)all);
    shmem_finalize();
    return 0;
}
