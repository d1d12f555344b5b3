/* A loop counter that no checkpoint holds. */
#include <shmem.h>
#include <shmem_ft.h>

struct pair {
    char c;
    double d[2];
};

static long sum[8];
static struct pair pair;
long *table[2] = {sum, &sum[4]};

static long step(long *at, int i) {
    *at += i;
    return *at;
}

int main(void) {
    shmem_init();
    long *heap = shmem_malloc(100 * sizeof(long));
    long (*call)(long *, int) = step;
    for (int i = 0; i < 10; i++) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
            continue;
        sum[i % 8] = call(heap, i);
        switch (i) {
        case 3:
            pair.c = 1;
            break;
        case 4:
            __atomic_fetch_add(&sum[0], 1, __ATOMIC_SEQ_CST);
        }
        __asm__ volatile("" ::: "memory");
    }
    shmem_finalize();
    return 0;
}
