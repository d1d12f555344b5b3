/*
 * pool: makes checkpoints, prints how many threads the library has started for their loops, and
 * fails if one of these takes signals. Between two checkpoints a forked child allocates and ends.
 *
 * One line per PE: pool PE threads COUNT cpus COUNT
 */
#define _GNU_SOURCE
#include "test.h"

#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4 << 20 };

/* Finds the rest of a line of a file that begins with `start`, or "". */
static void find(const char *path, const char *start, char *rest, int capacity) {
    FILE *file = fopen(path, "r");
    char line[256];
    rest[0] = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, start, strlen(start)) == 0)
            snprintf(rest, capacity, "%s", line + strlen(start));
    if (file)
        fclose(file);
}

static int helpers(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[64], blocked[64];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        find(path, "Name:\t", name, sizeof name);
        find(path, "SigBlk:\t", blocked, sizeof blocked);
        if (strncmp(name, "shmem-pool-", 11) != 0)
            continue;
        count++;
        /* SIGTERM, SIGALRM, SIGUSR1 are in the lowest 16 bits. */
        CHECK((strtoull(blocked, NULL, 16) & 0x6200) == 0x6200);
    }
    closedir(tasks);
    return count;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    char *data = shmem_malloc(BYTES);
    memset(data, shmem_my_pe(), BYTES);
    CHECK(helpers() == 0);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    int count = helpers(), status = 1;
    pid_t child = fork();
    if (child == 0) {
        char *block = malloc(BYTES);
        exit(block && memset(block, 1, BYTES) ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    memset(data, 1 + shmem_my_pe(), BYTES);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
    CHECK(helpers() == count);
    printf("pool %d threads %d cpus %d\n", shmem_my_pe(), count, CPU_COUNT(&mask));
    shmem_finalize();
    return 0;
}
