/*
 * survives: PE 0 prints before its first checkpoint, and then after each, which of the first LOSSES
 * nodes and PEs could be lost, as digits: 1 yes, 0 no, - no such one.
 */
#include "restart.h"

#include <stdio.h>

#define LOSSES 5

static int step;

static void say(const char *when) {
    const char digits[] = "-01";
    char nodes[LOSSES + 1] = "", pes[LOSSES + 1] = "";
    for (int id = 0; id < LOSSES; id++) {
        nodes[id] = digits[shmemx_ft_survives(SHMEMX_FT_NODE, id) + 1];
        pes[id] = digits[shmemx_ft_survives(SHMEMX_FT_PE, id) + 1];
    }
    if (shmem_my_pe() == 0)
        fprintf(stderr, "%s: nodes %s, PEs %s, kinds %d %d\n", when, nodes, pes,
                shmemx_ft_survives(SHMEMX_FT_DOMAIN, 0), shmemx_ft_survives(-1, 0));
}

int main(void) {
    shmem_init();
    if (shmem_ft_algo_init())
        say("at first");
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            restart();
            shmem_barrier_all();
            continue;
        }
        if (step == 4)
            break;
        char when[16];
        snprintf(when, sizeof when, "step %d", step);
        say(when);
        step++;
        shmem_barrier_all();
    }
    shmem_finalize();
    return 0;
}
