/*
 * heap: allocates and frees symmetric memory between all checkpoints.
 *
 * A linked list of blocks of many sizes, with its head in a static variable and plain pointers in
 * the blocks as links. In every step a generator, whose state is static too, allocates and frees
 * blocks. So a restart is right only if allocator, links, head and generator roll back together,
 * and if every address is also valid in a substitute. The sum at the end covers addresses and
 * bytes.
 */
#include "test.h"

enum { STEPS = 10, ACTIONS = 12, LARGEST = 200000 };

struct node {
    struct node *next;
    size_t size;
    uint64_t seed;
    unsigned char bytes[];
};

static struct node *head;
static uint64_t state = 88172645463325252u;
static long step;
static uint64_t sum;
static uint64_t total;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static unsigned char byte(uint64_t seed, size_t at) {
    return (unsigned char)((seed + at) * 0x9e3779b97f4a7c15u >> 56);
}

static void add(void) {
    size_t size = draw() % (draw() % 4 ? 2000 : LARGEST) + 1;
    uint64_t seed = draw();
    struct node *node = shmem_malloc(sizeof *node + size);
    CHECK(node);
    node->next = head;
    node->size = size;
    node->seed = seed ^ (uint64_t)shmem_my_pe();
    for (size_t i = 0; i < size; i++)
        node->bytes[i] = byte(node->seed, i);
    head = node;
}

static void drop(void) {
    struct node **link = &head;
    for (uint64_t hops = draw() % 8; hops > 0 && *link && (*link)->next; hops--)
        link = &(*link)->next;
    struct node *node = *link;
    if (node) {
        *link = node->next;
        shmem_free(node);
    }
}

/* Every byte of every block is what was put there. */
static void verify(void) {
    sum = 0;
    for (struct node *node = head; node; node = node->next) {
        uint64_t seen = 0;
        for (size_t i = 0; i < node->size; i++) {
            CHECK(node->bytes[i] == byte(node->seed, i));
            seen = mixed(seen, node->bytes[i]);
        }
        sum = mixed(mixed(sum, seen), (uint64_t)(uintptr_t)node);
    }
}

int main(void) {
    shmem_init();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            verify();
            continue;
        }
        if (step == STEPS)
            break;
        for (int i = 0; i < ACTIONS; i++) {
            if (draw() % 5 < 3)
                add();
            else
                drop();
        }
        verify();
        if (++step == STEPS) {
            shmem_barrier_all();
            total = 0;
            for (int pe = 0; shmem_my_pe() == 0 && pe < shmem_n_pes(); pe++)
                total = mixed(total, shmem_uint64_g(&sum, pe));
        }
    }
    if (shmem_my_pe() == 0) {
        printf("heap sum=%016llx\n", (unsigned long long)total);
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
