/* restart.h: what every program does after a loss: it queries the lost PEs, and restarts. */
#ifndef RAIDSHMEM_RESTART_H
#define RAIDSHMEM_RESTART_H

#include <shmem.h>
#include <shmem_ft.h>

#include <stdlib.h>

static inline void restart(void) {
    int *pes = NULL, *status = NULL;
    size_t n = 0;
    shmem_query_fault(&pes, &status, &n);
    shmem_restart_pes(pes, n);
    free(pes);
    free(status);
}

#endif
