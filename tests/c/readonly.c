/*
 * readonly: a table that is read-only for some steps, is written, and is read-only again, next to a
 * few words that change in each step. Every PE compares all of its memory, and its neighbour's
 * table, in each step and after each restart.
 *
 * readonly [PE STEP MICROSECONDS]     that PE is killed this long after that step has begun
 * readonly HOW                        a mistake that ends the job with a line: write, put, free,
 *                                     part, static, other
 * readonly any                        the calls may have no effect
 * readonly store [not]                prints the PEs' memory, with the table read-only or not
 */
#include "test.h"
#include "kill_later.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 9, WORDS = 400 * 1024, OTHERS = 512, END = 4, AGAIN = 6 };

static long step;
static uint64_t *table, *others;

/* The table is of generation 1 from the step on in which it is written. */
static uint64_t word(int pe, long of_step, size_t at) {
    return mixed(mixed((uint64_t)pe << 32 | (uint64_t)(of_step > END), at), 7);
}

static void fill(long of_step) {
    for (size_t at = 0; at < WORDS; at++)
        table[at] = word(shmem_my_pe(), of_step, at);
}

static void compare(void) {
    static uint64_t there[1024];
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    for (size_t at = 0; at < WORDS; at++)
        CHECK(table[at] == word(me, step, at));
    for (size_t at = 0; at < OTHERS; at++)
        CHECK(others[at] == mixed((uint64_t)step, at));
    for (size_t at = 0; at + 1024 <= WORDS && !shmemx_ft_faulted(); at += 1024 * 40) {
        if (shmemx_ft_get(there, table + at, sizeof there, next) != SHMEM_FT_SUCCESS)
            return;
        for (size_t i = 0; i < 1024; i++)
            CHECK(there[i] == word(next, step, at + i));
    }
}

/* Returns the bytes allocated in the memory file that all PEs share. */
static long long allocated(void) {
    DIR *all = opendir("/proc/self/fd");
    long long most = 0;
    for (struct dirent *entry; (entry = readdir(all));) {
        struct stat found;
        int is_file = fstat(atoi(entry->d_name), &found) == 0 && S_ISREG(found.st_mode);
        if (is_file && found.st_nlink == 0 && found.st_blocks * 512LL > most)
            most = found.st_blocks * 512LL;
    }
    closedir(all);
    return most;
}

static void misuse(const char *how) {
    static uint64_t fixed[WORDS];
    if (!strcmp(how, "static")) {
        shmemx_ft_readonly(fixed, sizeof fixed);
    } else if (!strcmp(how, "part")) {
        shmemx_ft_writable(table, WORDS / 2 * sizeof *table);
    } else if (!strcmp(how, "other")) {
        uint64_t *more = shmem_malloc(WORDS * sizeof *table);
        shmemx_ft_readonly(more, (WORDS - shmem_my_pe() / 2 * 100000) * sizeof *table);
    } else if (shmem_my_pe() == 1 && !strcmp(how, "free")) {
        shmem_free(table);
    } else if (shmem_my_pe() == 1 && !strcmp(how, "write")) {
        table[WORDS / 2] = 1;
    } else if (shmem_my_pe() == 1 && !strcmp(how, "put")) {
        static uint64_t one = 1;
        shmem_putmem(table + WORDS / 2, &one, sizeof one, 2);
    }
    shmem_barrier_all();
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    shmem_init();
    int any = argc == 2 && !strcmp(argv[1], "any");
    int stores = argc > 1 && !strcmp(argv[1], "store");
    table = shmem_malloc(WORDS * sizeof *table);
    others = shmem_malloc(OTHERS * sizeof *others);
    shmemx_ft_protect("step", &step, sizeof step);
    fill(0);
    for (size_t at = 0; at < OTHERS; at++)
        others[at] = mixed(0, at);
    if (!(stores && argc == 3))
        CHECK(shmemx_ft_readonly(table, WORDS * sizeof *table) == SHMEM_FT_SUCCESS || any);
    if (argc == 2 && !any && !stores)
        misuse(argv[1]);
    pthread_t killer;
    int armed = 0;
    for (;;) {
        if (step == STEPS && armed)
            pthread_join(killer, NULL); /* a loss after the last checkpoint is not survived */
        if (!saved(compare))
            continue;
        if (step == STEPS)
            break;
        if (argc == 4 && shmem_ft_algo_init() && shmem_my_pe() == atoi(argv[1]) &&
            step == atol(argv[2])) {
            static long delay;
            delay = atol(argv[3]) * 1000;
            CHECK(pthread_create(&killer, NULL, kill_later, &delay) == 0);
            armed = 1;
        }
        if (step == END - 1 && stores) {
            shmem_barrier_all();
            if (shmem_my_pe() == 0)
                printf("store bytes: %lld\n", allocated());
            break;
        }
        if (step == END) {
            CHECK(shmemx_ft_writable(table, WORDS * sizeof *table) == SHMEM_FT_SUCCESS);
            fill(step + 1); /* after a loss, too: it is undone */
        }
        if (step == AGAIN)
            CHECK(shmemx_ft_readonly(table, WORDS * sizeof *table) == SHMEM_FT_SUCCESS || any);
        step++;
        for (size_t at = 0; at < OTHERS; at++)
            others[at] = mixed((uint64_t)step, at);
        shmem_barrier_all();
        if (!shmemx_ft_faulted())
            compare();
        shmem_barrier_all();
    }
    if (shmem_my_pe() == 0)
        printf("readonly ok\n");
    shmem_finalize();
}
