/*
 * seat: says where each PE may run and where the pages of its symmetric heap are, and fails if a
 * page is not on the NUMA node of its owner's processors although these are all on one node.
 *
 * The pages are touched by a neighbour first, so that it is the binding that decides where they
 * are, and not who came first. Run it on the machine in question:
 *
 *     oshcc -o seat seat.c && oshrun --report-placement -n 4 ./seat
 *
 * One line a PE: seat PE cpus LIST near NODE pages COUNT there COUNT
 * (near -1: the processors are on several nodes, or the kernel knows of none).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, NODES_MAX = 1024 };

/* The node of every processor in the mask, or -1. */
static int near(const cpu_set_t *mask) {
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

static void allowed(char *list, size_t room) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[1024];
    strcpy(list, "?");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
            snprintf(list, room, "%s", line + 18 + strspn(line + 18, " \t"));
            list[strcspn(list, "\n")] = 0;
        }
    if (status)
        fclose(status);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    char *heap = shmem_align(PAGE, (size_t)PAGES * PAGE), list[256];
    static char pattern[PAGE];
    memset(pattern, 1, sizeof pattern);
    for (int page = 0; page < PAGES; page++)
        shmem_putmem(heap + (size_t)page * PAGE, pattern, PAGE, next);
    shmem_barrier_all();

    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    allowed(list, sizeof list);
    int node = near(&mask), there = 0;
    void *pages[PAGES];
    int where[PAGES];
    for (int page = 0; page < PAGES; page++) {
        pages[page] = heap + (size_t)page * PAGE;
        where[page] = *(volatile char *)pages[page] ? -1 : -2; /* mapped here by looking at it */
    }
    if (syscall(SYS_move_pages, 0, (unsigned long)PAGES, pages, NULL, where, 0) != 0)
        node = -1; /* a kernel without NUMA */
    for (int page = 0; page < PAGES; page++)
        there += where[page] == node;
    printf("seat %d cpus %s near %d pages %d there %d\n", me, list, node, PAGES, there);
    fflush(stdout);
    shmem_barrier_all();
    shmem_finalize();
    return node >= 0 && there != PAGES;
}
