/* memory: the symmetric heap, symmetric objects, and access to a peer's memory. */
#include "check.h"

static int a_static[4];

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes(), next = (me + 1) % n_pes, local = 0;
    CHECK(shmem_malloc(0) == NULL);
    shmem_free(NULL);
    long *a = shmem_malloc(100 * sizeof *a), *b = shmem_calloc(50, sizeof *b);
    long *c = shmem_align(4096, sizeof *c);
    long *d = shmem_malloc_with_hints(80, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
    CHECK(a && b && c && d && (uintptr_t)c % 4096 == 0);
    for (int i = 0; i < 50; i++)
        CHECK(b[i] == 0);
    for (int i = 0; i < 100; i++)
        a[i] = 100 * me + i;
    a = shmem_realloc(a, 1000 * sizeof *a);
    CHECK(a != NULL);
    for (int i = 0; i < 100; i++)
        CHECK(a[i] == 100 * me + i && shmem_long_g(&a[i], next) == 100 * next + i);
    CHECK(shmem_addr_accessible(a, next) && shmem_addr_accessible(a_static, next));
    CHECK(!shmem_addr_accessible(&local, next) && !shmem_addr_accessible(a, n_pes));
    CHECK(shmem_pe_accessible(n_pes - 1) && !shmem_pe_accessible(n_pes));
    CHECK(!shmem_pe_accessible(-1) && shmem_ptr(&local, me) == NULL && shmem_ptr(a, me) == a);
    long *theirs = shmem_ptr(a, next);
    if (theirs)
        CHECK(theirs[7] == 100 * next + 7);
    shmem_barrier_all();
    shmem_free(a), shmem_free(b), shmem_free(c), shmem_free(d);
    CHECK(shmem_malloc((size_t)1 << 60) == NULL);

    int major, minor;
    char name[SHMEM_MAX_NAME_LEN];
    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION);
    CHECK(strlen(name) > 0);
    return end_of("memory");
}
