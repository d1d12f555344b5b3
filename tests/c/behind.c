/*
 * behind: memory that changes in each step, and an action right after each checkpoint call, whose
 * parity may still be computed then. Every PE compares all of its memory in each step, and after
 * each restart.
 *
 * behind ahead          prints if a checkpoint protects, right after its call
 * behind ACTION         none, put, flush, protect, readonly, exclude, free, resize, or fork
 * behind end            puts, and waits at its end until the last checkpoint protects
 */
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 7, WORDS = 96 * 1024, FIXED = 64 * 1024, ASKED = 4 };

static long step;
static uint64_t words[WORDS];
static uint64_t *fixed, *block;
/* Private memory, of which one word is registered, in turns. */
static _Thread_local uint64_t kept[2];
static _Thread_local int which;
static char action[16];

static uint64_t word(int pe, long of_step, size_t at) {
    return mixed(mixed((uint64_t)pe << 32 | (uint64_t)of_step, at), 5);
}

static void fill(void) {
    for (size_t at = 0; at < WORDS; at++)
        words[at] = word(shmem_my_pe(), step, at);
    kept[which] = word(shmem_my_pe(), step, WORDS);
}

static void compare(void) {
    for (size_t at = 0; at < WORDS; at++)
        CHECK(words[at] == word(shmem_my_pe(), step, at));
    CHECK(kept[which] == word(shmem_my_pe(), step, WORDS));
    for (size_t at = 0; at < FIXED; at++)
        CHECK(fixed[at] == word(shmem_my_pe(), 0, at));
}

static int is(const char *name) {
    return !strcmp(action, name);
}

/* Puts into every other PE what it will have in the next step. */
static void put_ahead(void) {
    static uint64_t there[1024];
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        for (size_t at = 0; at < 1024; at++)
            there[at] = word(pe, step + 1, at);
        shmem_putmem(words, there, sizeof there, pe);
    }
}

static void act(void) {
    size_t bytes = FIXED * sizeof *fixed;
    if (is("put") || is("end")) {
        put_ahead();
    } else if (is("flush")) {
        int whole = shmemx_ft_flush() == SHMEM_FT_SUCCESS;
        uint64_t number = shmemx_ft_checkpoint_number();
        CHECK(shmemx_ft_protected(number) && !shmemx_ft_protected(number + 1));
        CHECK(!whole || number > (uint64_t)step);
    } else if (is("protect")) {
        which = !which;
        kept[which] = kept[!which];
        CHECK(shmemx_ft_protect("kept", &kept[which], sizeof kept[which]) == SHMEM_FT_SUCCESS);
    } else if (is("readonly") && step % 3 == 0) {
        shmemx_ft_readonly(fixed, bytes);
    } else if (is("readonly") && step % 3 == 1) {
        shmemx_ft_writable(fixed, bytes);
    } else if (is("exclude")) {
        if (step % 2 == 0)
            shmemx_ft_exclude(block, bytes);
        else
            shmemx_ft_include(block, bytes);
    } else if (is("free")) {
        shmem_free(block);
        block = shmem_malloc(bytes + (size_t)step % 2 * 4096);
        CHECK(block);
    } else if (is("resize")) {
        block = shmem_realloc(block, bytes + (size_t)(step + 1) % 2 * 8192);
        CHECK(block);
    } else if (is("fork")) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv) {
    shmem_init();
    snprintf(action, sizeof action, "%s", argc > 1 ? argv[1] : "none");
    fixed = shmem_malloc(FIXED * sizeof *fixed);
    block = shmem_malloc(FIXED * sizeof *block);
    shmemx_ft_protect("kept", &kept[which], sizeof kept[which]);
    for (size_t at = 0; at < FIXED; at++)
        fixed[at] = word(shmem_my_pe(), 0, at);
    fill();
    for (;;) {
        if (!saved(compare))
            continue;
        if (is("ahead") && step + 1 == ASKED) {
            printf("PE %d is ahead, protected %d\n", shmem_my_pe(),
                   shmemx_ft_protected((uint64_t)ASKED));
            fflush(stdout);
        }
        if (step + 1 == STEPS && (!is("end") || shmemx_ft_flush() == SHMEM_FT_SUCCESS))
            break;
        if (step + 1 == STEPS)
            continue;
        act();
        if (is("put") || is("end"))
            shmem_barrier_all();
        step++;
        fill();
        shmem_barrier_all();
        if (!shmemx_ft_faulted())
            compare();
    }
    if (shmem_my_pe() == 0)
        printf("behind ok\n");
    shmem_finalize();
    return 0;
}
