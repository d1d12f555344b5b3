/*
 * spread: pages that threads of a PE touched on two NUMA nodes are on them after a loss.
 *
 *     spread [FOLDER]
 *
 * In an original PE a thread on each of two NUMA nodes touches its parts of the heap. A substitute
 * touches nothing, so that whatever restores its memory decides where its pages are. Before each
 * checkpoint up to a loss the PE notes the nodes of its pages, in memory that is saved with them,
 * and at the end it compares. With a FOLDER, steps continue until it contains a set.
 *
 * One line per PE: spread PE pages COUNT there COUNT on COUNT COUNT (on the first two nodes)
 */
#include "numa.h"

#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 5, HALF = 1000, SMALL = 37, HEAP = 2 * HALF + 2 * SMALL, STATIC = 64 };

static long step;
static int stored;
static char *heap;
static char table[STATIC * PAGE] __attribute__((aligned(PAGE)));
static signed char nodes[HEAP + STATIC];

static char *page(int nth) {
    return nth < HEAP ? heap + (size_t)nth * PAGE : table + (size_t)(nth - HEAP) * PAGE;
}

/* Halves, and a small part of each in turn. */
static int thread_of(int nth) { return nth < 2 * HALF ? nth / HALF : (nth - 2 * HALF) / SMALL; }

static void look(signed char *into) {
    for (int nth = 0; nth < HEAP + STATIC; nth++) {
        void *at = page(nth);
        int node = -1;
        if (syscall(SYS_move_pages, 0, 1, &at, NULL, &node, 0) != 0)
            node = -1; /* a kernel without NUMA */
        into[nth] = (signed char)node;
    }
}

/* Moves this thread to a processor of a node. */
static void settle(int node) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (CPU_ISSET(cpu, &all) && near(&one) == node) {
            CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
            return;
        }
    }
    CHECK(!"a processor of the node");
}

static void *touch(void *thread) {
    settle((int)(intptr_t)thread);
    for (int nth = 0; nth < HEAP; nth++)
        if (thread_of(nth) == (int)(intptr_t)thread)
            *page(nth) = (char)nth;
    return NULL;
}

static void same(void) {
    CHECK(step >= 1);
    for (int nth = 0; nth < HEAP + STATIC; nth++)
        CHECK(*page(nth) == (char)nth);
}

int main(int argc, char **argv) {
    int provided, me, restarted = 0;
    shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided);
    me = shmem_my_pe();
    heap = shmem_align(PAGE, (size_t)HEAP * PAGE);
    for (intptr_t thread = 0; shmem_ft_algo_init() && thread < 2; thread++) {
        pthread_t toucher;
        CHECK(pthread_create(&toucher, NULL, touch, (void *)thread) == 0);
        CHECK(pthread_join(toucher, NULL) == 0);
    }
    for (int nth = HEAP; shmem_ft_algo_init() && nth < HEAP + STATIC; nth++)
        *page(nth) = (char)nth;
    char set[4096];
    snprintf(set, sizeof set, "%s/set-1/manifest", argc > 1 ? argv[1] : "");
    while (step < STEPS || (argc > 1 && !stored)) {
        step++;
        if (!restarted)
            look(nodes); /* before a substitute's restart too, which brings back the lost PE's */
        restarted |= !saved(same);
        for (int pe = 0; me == 0 && access(set, F_OK) == 0 && pe < shmem_n_pes(); pe++)
            shmem_int_p(&stored, 1, pe);
        shmem_barrier_all();
    }
    same();
    static signed char now[HEAP + STATIC];
    int there = 0, on[2] = {0, 0};
    look(now);
    for (int nth = 0; nth < HEAP + STATIC; nth++) {
        there += now[nth] >= 0 && now[nth] == nodes[nth];
        if (now[nth] == 0 || now[nth] == 1)
            on[now[nth]]++;
    }
    printf("spread %d pages %d there %d on %d %d\n", me, HEAP + STATIC, there, on[0], on[1]);
    shmem_finalize();
    return 0;
}
