/*
 * written: few blocks change between two checkpoints, in every way that memory can be written, by
 * its owner and by peers; a seed decides which, where and how. After every restart and at the end
 * all bytes are compared with the expected contents, recomputed from scratch.
 *
 * usage: written SEED [fork|maps]      fork: children of the PEs write as well
 *                                      maps: checks its mappings after each checkpoint
 *
 * Only one PE may write a line of 64 bytes, so that all orders end the same.
 */
#include "test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 1 << 16, STATICS = 1 << 13, WORDS = 8, STEPS = 16, MOST = 12 };

typedef struct {
    uint64_t words[WORDS];
} line;

/* The ways to write a line. */
enum {
    STORE,    /* by its owner */
    THREAD,   /* by another thread of its owner */
    READ,     /* by the kernel */
    COPY,     /* by memcpy of the C library */
    PUT,
    LATER,    /* by a put that completes later */
    STRIDED,
    POINTER,  /* through shmem_ptr */
    KEPT,     /* through what shmem_ptr gave at the start, or after a loss */
    ADD,      /* by atomics */
    SWAP,
    CHILD,    /* by a child of its owner */
    WAYS
};

typedef struct {
    int how, to, in_statics;
    size_t at;
    line value;
} act;

static line statics[STATICS];
static line *heap;
static line *kept[64][2];
static void *spare;
static long step;
static uint64_t seed;
static int pes, forks;

/* Returns the `nth` action of PE `pe` in step `at`. */
static act chosen(long at, int pe, int nth) {
    uint64_t chance = mixed(mixed(mixed(seed, at), pe), nth);
    act it = {.how = chance % (forks ? WAYS : CHILD)};
    it.in_statics = it.how != CHILD && chance >> 20 & 1; /* those of a child are its own */
    it.to = it.how <= COPY || it.how == CHILD ? pe : (int)((chance >> 32) % pes);
    size_t mine = (it.in_statics ? STATICS : LINES) / pes;
    /* In steps with few lines they lie close together, in others anywhere. */
    size_t any = mixed(chance, 7) % mine, near = mixed(seed, at) % mine;
    it.at = (chance & 1 << 21 ? any : (near + nth) % mine) * pes + pe;
    for (int i = 0; i < WORDS; i++)
        it.value.words[i] = mixed(chance, i) | 1;
    return it;
}

/* Returns the number of actions: none in some steps, in others too many for page tracking to
 * pay. */
static int acts(long at, int pe) {
    uint64_t chance = mixed(mixed(seed, at), 99);
    if (chance % 7 == 0)
        return 0;
    return chance % 11 == 1 ? 600 : 1 + (int)(mixed(chance, pe) % MOST);
}

static void *store(void *what) {
    const act *it = what;
    line *to = it->in_statics ? &statics[it->at] : &heap[it->at];
    for (int i = 0; i < WORDS; i++)
        ((volatile line *)to)->words[i] = it->value.words[i];
    return NULL;
}

static void from_kernel(line *to, const line *value) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], value, sizeof *value) == sizeof *value);
    CHECK(read(ends[0], to, sizeof *to) == sizeof *to);
    close(ends[0]), close(ends[1]);
}

static void put_by(const act *it, line *to) {
    const uint64_t *words = it->value.words;
    line *there = NULL;
    if (it->how == POINTER)
        there = shmem_ptr(to, it->to);
    if (it->how == KEPT && kept[it->to][it->in_statics])
        there = kept[it->to][it->in_statics] + it->at;
    switch (it->how) {
    case POINTER:
    case KEPT:
        if (there)
            *there = it->value;
        else
            shmem_putmem(to, words, sizeof *to, it->to);
        break;
    case PUT:
        shmem_putmem(to, words, sizeof *to, it->to);
        break;
    case LATER:
        shmem_putmem_nbi(to, words, sizeof *to, it->to);
        shmem_quiet(); /* the value is on the stack */
        break;
    case STRIDED:
        shmem_uint64_iput(to->words, words, 2, 2, WORDS / 2, it->to);
        shmem_uint64_iput(to->words + 1, words + 1, 2, 2, WORDS / 2, it->to);
        break;
    case ADD:
        for (int i = 0; i < WORDS; i++)
            shmem_uint64_atomic_add(&to->words[i], words[i], it->to);
        break;
    case SWAP:
        for (int i = 0; i < WORDS; i++)
            shmem_uint64_atomic_swap(&to->words[i], words[i], it->to);
        break;
    }
}

static void perform(const act *it) {
    line *to = it->in_statics ? &statics[it->at] : &heap[it->at];
    pthread_t thread;
    pid_t child;
    switch (it->how) {
    case STORE:
        store((void *)it);
        break;
    case THREAD:
        CHECK(pthread_create(&thread, NULL, store, (void *)it) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        break;
    case READ:
        from_kernel(to, &it->value);
        break;
    case COPY:
        memcpy(to, &it->value, sizeof *to);
        break;
    case CHILD:
        child = fork();
        if (child == 0) {
            store((void *)it);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, NULL, 0) == child);
        break;
    default:
        put_by(it, to);
    }
}

static void keep(void) {
    for (int pe = 0; pe < pes; pe++)
        kept[pe][0] = shmem_ptr(heap, pe), kept[pe][1] = shmem_ptr(statics, pe);
}

static void check(void) {
    keep();
    int me = shmem_my_pe();
    line *wanted = calloc(LINES + STATICS, sizeof *wanted);
    CHECK(wanted);
    for (long at = 1; at <= step; at++)
        for (int pe = 0; pe < pes; pe++)
            for (int nth = 0; nth < acts(at, pe); nth++) {
                act it = chosen(at, pe, nth);
                line *to = &wanted[it.in_statics ? LINES + it.at : it.at];
                for (int i = 0; it.to == me && i < WORDS; i++)
                    to->words[i] = it.how == ADD ? to->words[i] + it.value.words[i]
                                                 : it.value.words[i];
            }
    for (size_t at = 0; at < LINES; at++)
        CHECK(memcmp(&heap[at], &wanted[at], sizeof *heap) == 0);
    for (size_t at = 0; at < STATICS; at++)
        CHECK(memcmp(&statics[at], &wanted[LINES + at], sizeof *statics) == 0);
    free(wanted);
}

/* The mappings of some bytes of all PEs. */
struct maps {
    int watched, open;   /* writable: with tracking, and without */
    int noted;           /* tracked without need: not writable */
    long huge;           /* KiB of huge pages that are not writable */
};

/* Goes through the mappings. With an `address`: finds the file that is mapped there, and the offset
 * in it. Without: adds up the mappings of `len` bytes of that file. */
static void go_through(const void *address, unsigned long *file, unsigned long *at,
                       unsigned long len, struct maps *found) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char text[512], may[5];
    unsigned long from, to, offset, inode;
    unsigned major, minor, mine = 0;
    long kib;
    CHECK(maps);
    while (fgets(text, sizeof text, maps)) {
        if (sscanf(text, "%lx-%lx %4s %lx %x:%x %lu", &from, &to, may, &offset, &major, &minor,
                   &inode) == 7) {
            inode = inode << 32 | major << 20 | minor; /* each node has its own file system */
            if (address && (unsigned long)address >= from && (unsigned long)address < to)
                *file = inode, *at = offset + (unsigned long)address - from;
            mine = !address && inode == *file && offset < *at + len && *at < offset + (to - from);
        } else if (mine && sscanf(text, "ShmemPmdMapped: %ld kB", &kib) == 1) {
            found->huge += may[1] == 'w' ? 0 : kib;
        } else if (mine && strncmp(text, "VmFlags:", 8) == 0) {
            int watched = strstr(text, " uw") != NULL;
            if (may[1] == 'w')
                *(watched ? &found->watched : &found->open) += 1;
            else
                found->noted += watched;
        }
    }
    fclose(maps);
}

/* All mappings through which the lines are writable are tracked, or none is. Returns true if they
 * are. */
static int looked(long *huge) {
    const void *all[] = {heap, statics};
    unsigned long sizes[] = {LINES * sizeof(line), sizeof statics};
    struct maps found = {0};
    for (int pe = 0; pe < pes; pe++)
        for (int part = 0; part < 2; part++) {
            unsigned long file = 0, at = 0;
            go_through(shmem_ptr(all[part], pe), &file, &at, 0, NULL);
            CHECK(file);
            go_through(NULL, &file, &at, sizes[part], &found);
        }
    CHECK(found.noted == 0 && found.watched + found.open > 2 * pes); /* own statics appear twice */
    CHECK(found.watched == 0 || found.open == 0);
    *huge = found.huge;
    return found.watched > 0;
}

/* Occasionally lays the heap out anew. */
static void reallocate(void) {
    uint64_t chance = mixed(mixed(seed, step), 5);
    if (chance % 9)
        return;
    if (spare)
        shmem_free(spare);
    spare = chance & 512 ? shmem_malloc(1 + chance % 300000) : NULL;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    pes = shmem_n_pes();
    CHECK(argc > 1);
    seed = strtoull(argv[1], NULL, 10);
    forks = argc > 2 && strcmp(argv[2], "fork") == 0;
    int me = shmem_my_pe(), maps = argc > 2 && strcmp(argv[2], "maps") == 0, watched = 0;
    long huge = 0;
    heap = shmem_calloc(LINES, sizeof *heap);
    CHECK(heap && pes <= 64);
    keep();
    shmem_barrier_all();
    for (;;) {
        if (!saved(check))
            continue;
        if (step == STEPS)
            break;
        watched += maps && looked(&huge);
        step++;
        reallocate();
        for (int nth = 0; nth < acts(step, me); nth++) {
            act it = chosen(step, me, nth);
            perform(&it);
        }
        shmem_barrier_all();
    }
    check();
    if (maps)
        printf("maps: watched after %d checkpoints, %ld KiB of huge pages apart\n", watched, huge);
    printf("PE %d is right\n", me);
    shmem_finalize();
    return 0;
}
