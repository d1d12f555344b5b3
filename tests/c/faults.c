/*
 * faults: every PE prints what shmem_query_fault reports, and the step from which it continues.
 *
 *     PE 2 of life 0 is told: 1 by its node
 *     PE 2 of life 0 goes on from 3
 */
#include "test.h"

enum { STEPS = 6 };

static long step;

static void tell(void) {
    int *pes = NULL, *status = NULL;
    size_t n = 0;
    char line[256];
    int me = shmem_my_pe(), life = !shmem_ft_algo_init();
    int at = snprintf(line, sizeof line, "PE %d of life %d is told:", me, life);
    shmem_query_fault(&pes, &status, &n);
    for (size_t i = 0; i < n; i++) {
        const char *how = status[i] == SHMEM_FT_NODE_FAILED ? "node"
                        : status[i] == SHMEM_FT_PE_FAILED   ? "self"
                                                            : "?";
        at += snprintf(line + at, sizeof line - (size_t)at, " %d by its %s", pes[i], how);
    }
    printf("%s\n", line);
    shmem_restart_pes(pes, n);
    shmem_query_fault(NULL, NULL, &n);
    CHECK(n == 0); /* the fault is over */
    printf("PE %d of life %d goes on from %ld\n", me, life, step);
    shmem_barrier_all();
    free(pes);
    free(status);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            tell();
            continue;
        }
        if (step == STEPS)
            break;
        step++;
        shmem_barrier_all();
    }
    shmem_finalize();
    return 0;
}
