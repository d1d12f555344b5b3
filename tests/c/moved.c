/*
 * moved: each PE says at the end which processors it may use, though some were lost on the way.
 *
 * One line a PE: moved PE cpus LIST
 */
#include "test.h"

static long step;

static void same(void) { CHECK(step >= 1 && step <= 5); }

int main(void) {
    shmem_init();
    while (step < 5) {
        step++;
        saved(same);
    }
    FILE *status = fopen("/proc/self/status", "r");
    char line[1024];
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0)
            printf("moved %d cpus %s", shmem_my_pe(), line + 18 + strspn(line + 18, " \t"));
    CHECK(status && fclose(status) == 0);
    shmem_finalize();
    return 0;
}
