/* The CPUs of this process and the placement of its pages, as the kernel reports them. Included
 * first. */
#ifndef RAIDSHMEM_NUMA_H
#define RAIDSHMEM_NUMA_H

#define _GNU_SOURCE
#include <sched.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, NODES_MAX = 1024 };

/* Returns the node of every processor in the mask, or -1 if they differ. */
static inline int near(const cpu_set_t *mask) {
    int found = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, mask))
            continue;
        int node = 0;
        char path[96];
        for (; node < NODES_MAX; node++) {
            snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpu%d", node, cpu);
            if (access(path, F_OK) == 0)
                break;
        }
        if (node == NODES_MAX || (found != -1 && found != node))
            return -1;
        found = node;
    }
    return found;
}

static inline void allowed(char *list, size_t capacity) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[1024];
    strcpy(list, "?");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
            snprintf(list, capacity, "%s", line + 18 + strspn(line + 18, " \t"));
            list[strcspn(list, "\n")] = 0;
        }
    if (status)
        fclose(status);
}

/* Counts, of `count` pages from `base`, those that are mapped and those that are on `node`. */
static inline void count(char *base, size_t count, int node, size_t *mapped, size_t *there) {
    void *pages[PAGES];
    int where[PAGES];
    for (size_t done = 0; done < count; done += PAGES) {
        size_t some = count - done < PAGES ? count - done : PAGES;
        for (size_t at = 0; at < some; at++)
            pages[at] = base + (done + at) * PAGE;
        if (syscall(SYS_move_pages, 0, some, pages, NULL, where, 0) != 0)
            return; /* a kernel without NUMA */
        for (size_t at = 0; at < some; at++) {
            *mapped += where[at] >= 0;
            *there += where[at] == node;
        }
    }
}

#endif
