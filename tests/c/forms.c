/*
 * forms: memory that is read, across checkpoints, without being named. Each mark is set before a
 * checkpoint, read after it in its own way, and overwritten whole. A plan that takes one for dead
 * leads to a different sum; the scratch memory is dead. Left out: jumps and unknown code, since a
 * plan leaves nothing out if PEs may meet at different calls.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 6
#define FORMS 8

static int step;
static long sum[FORMS], scratch[4096];

struct eight {
    long a[8];
};
static volatile struct eight empty;
static struct eight copied;
static long moved[8], partly[8], swapped, argued, kept, noted;
static struct {
    unsigned a : 24;
    unsigned char b;
} bits;
static _Thread_local long *mine;

static void add(int form, long value) {
    sum[form] = 3 * sum[form] + value;
}

static void __attribute__((noinline)) argue(int count, ...) {
    va_list list;
    va_start(list, count);
    add(0, *va_arg(list, long *));
    va_end(list);
    argued = 0;
}

static void through_file(void) {
    long *from = &noted, *to = NULL;
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/forms-%d", (int)getpid());
    FILE *file = fopen(name, "w+b");
    if (file == NULL || fwrite(&from, sizeof from, 1, file) != 1)
        shmem_global_exit(1);
    rewind(file);
    if (fread(&to, sizeof to, 1, file) != 1)
        shmem_global_exit(1);
    fclose(file);
    remove(name);
    add(1, *to);
    noted = 0;
}

static void mark(void) {
    long value = 100 * (step + 1) + shmem_my_pe();
    argued = noted = kept = swapped = value;
    for (int i = 0; i < 8; i++)
        copied.a[i] = moved[i] = partly[i] = value + i;
    bits.b = (unsigned char)value;
}

static void use(void) {
    memset(scratch, step, sizeof scratch);
    argue(1, &argued);
    through_file();
    mine = &kept;
    add(2, *mine);
    kept = 0;
    add(3, __atomic_exchange_n(&swapped, 0, __ATOMIC_SEQ_CST));
    add(4, copied.a[7]);
    *(volatile struct eight *)&copied = empty;
    memmove(moved, moved, sizeof moved);
    add(5, moved[3]);
    memset(moved, 0, sizeof moved);
    memset(partly, 0, sizeof partly - sizeof partly[0]);
    add(6, partly[7]);
    memset(partly, 0, sizeof partly);
    bits.a = (unsigned)step;
    add(7, bits.b);
    memset(&bits, 0, sizeof bits);
    sum[0] += scratch[step];
}

static int saved(void) {
    int *pes = NULL, *status = NULL;
    size_t n = 0;
    if (shmem_checkpoint_all() == SHMEM_FT_SUCCESS)
        return 1;
    shmem_query_fault(&pes, &status, &n);
    shmem_restart_pes(pes, n);
    free(pes);
    free(status);
    shmem_barrier_all();
    return 0;
}

int main(void) {
    shmem_init();
    if (shmem_ft_algo_init())
        mark();
    for (;;) {
        if (!saved())
            continue;
        if (step == STEPS)
            break;
        use();
        step++;
        mark();
        shmem_barrier_all();
    }
    for (int form = 0; form < FORMS; form++)
        printf("PE %d form %d: %ld\n", shmem_my_pe(), form, sum[form]);
    shmem_finalize();
    return 0;
}
