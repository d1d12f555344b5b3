/*
 * limits: rewrites its memory at each step, with a checkpoint after each. Once checkpoint 2 is
 * agreed, every PE limits itself to what it has in use, and continues with more memory than before.
 *
 * usage: limits files|space|file-size|locked
 *
 * A refused checkpoint prints one line, and the program continues without it.
 */
#define _POSIX_C_SOURCE 200809L

#include "test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef RLIMIT_MEMLOCK
#define RLIMIT_MEMLOCK 8 /* not in POSIX */
#endif

enum { STEPS = 6, WORDS = 8 * 8192 };

static long step;
static uint64_t *data, *more;

static uint64_t value(size_t at) {
    return mixed(mixed((uint64_t)shmem_my_pe() << 32 | (uint64_t)step, at), 11);
}

static void fill(void) {
    for (size_t at = 0; at < WORDS; at++)
        data[at] = value(at);
    if (more)
        for (size_t at = 0; at < WORDS; at++)
            more[at] = value(at + WORDS);
}

static void verify(void) {
    for (size_t at = 0; at < WORDS; at++)
        CHECK(data[at] == value(at));
    if (more)
        for (size_t at = 0; at < WORDS; at++)
            CHECK(more[at] == value(at + WORDS));
}

static void set(int what, rlim_t most) {
    struct rlimit limit = { most, most };
    CHECK(setrlimit(what, &limit) == 0);
}

static void limit(const char *what) {
    if (!strcmp(what, "files")) {
        int next = open("/dev/null", O_RDONLY);
        CHECK(next >= 0);
        close(next);
        set(RLIMIT_NOFILE, (rlim_t)next);
    } else if (!strcmp(what, "space")) {
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        CHECK(file && fscanf(file, "%lu", &pages) == 1);
        fclose(file);
        set(RLIMIT_AS, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE));
    } else if (!strcmp(what, "file-size")) {
        set(RLIMIT_FSIZE, 4096);
    } else {
        CHECK(!strcmp(what, "locked"));
        set(RLIMIT_MEMLOCK, 0);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    CHECK(argc == 2);
    data = shmem_malloc(WORDS * sizeof *data);
    CHECK(data);
    if (shmem_ft_algo_init())
        fill();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            const char *error = shmemx_ft_last_error();
            if (error) {
                printf("PE %d is refused: %s\n", shmem_my_pe(), error);
            } else {
                recover();
                verify();
                continue;
            }
        }
        verify();
        shmem_barrier_all();
        if (step == STEPS)
            break;
        step++;
        if (step == 2 && shmem_ft_algo_init()) {
            limit(argv[1]);
            printf("PE %d is limited\n", shmem_my_pe());
        }
        if (step == 2) {
            more = shmem_malloc(WORDS * sizeof *more);
            CHECK(more);
        }
        fill();
    }
    printf("PE %d is done\n", shmem_my_pe());
    shmem_finalize();
    return 0;
}
