/*
 * regions: declarations that a program makes about memory, by its argument; PE 1 is lost on the
 * way.
 *
 * Every PE compares all of its memory with what it should be after each step and each restart.
 */
#include "test.h"

enum { STEPS = 6, WORDS = 4096 };

static long step;
static const char *how;
static uint64_t *block;

static int is(const char *what) {
    return !strcmp(how, what);
}

static uint64_t value(size_t at) {
    return mixed(mixed((uint64_t)shmem_my_pe() << 32 | (uint64_t)step, at), 5);
}

static void fill(uint64_t *words, size_t count) {
    for (size_t at = 0; at < count; at++)
        words[at] = value(at);
}

static void compare(const uint64_t *words, size_t count) {
    for (size_t at = 0; at < count; at++)
        CHECK(words[at] == value(at));
}

/* A declaration ends with its block, or by another declaration; the next block there is covered. */
static void forgotten(void) {
    block = shmem_malloc(WORDS * sizeof *block);
    CHECK(shmemx_ft_exclude(block, WORDS * sizeof *block) == SHMEM_FT_SUCCESS);
    if (is("include")) {
        CHECK(shmemx_ft_include(block, 1000 * sizeof *block) == SHMEM_FT_SUCCESS);
        CHECK(shmemx_ft_include(block + 1000, 3096 * sizeof *block) == SHMEM_FT_SUCCESS);
        long local;
        CHECK(shmemx_ft_include(&local, sizeof local) == SHMEM_FT_FAILURE);
        return;
    }
    uint64_t *before = block;
    shmem_free(block);
    CHECK(shmemx_ft_exclude(before, 8) == SHMEM_FT_FAILURE); /* nothing is there */
    block = shmem_malloc(WORDS * sizeof *block);
    CHECK(block == before);
}

/* A block that moves keeps the declarations for its words; the words it gains are covered. */
static void moved(void) {
    block = shmem_malloc(1000 * sizeof *block);
    CHECK(shmem_malloc(64)); /* so that it has to move */
    CHECK(shmemx_ft_exclude(block + 500, 500 * sizeof *block) == SHMEM_FT_SUCCESS);
    uint64_t *before = block;
    block = shmem_realloc(block, WORDS * sizeof *block);
    CHECK(block && block != before);
    uint64_t *again = shmem_malloc(1000 * sizeof *block);
    CHECK(again == before); /* covered, although half of the old block was not */
    fill(again, 1000);
    fill(block, 500);
    fill(block + 1000, WORDS - 1000);
    uint64_t written = 0; /* by this process to a word that no restart touches */
    while (step < STEPS) {
        if (!saved(shmem_barrier_all)) {
            compare(block, 500);
            compare(block + 1000, WORDS - 1000);
            compare(again, 1000);
            CHECK(!written || block[500] == written);
            continue;
        }
        step++;
        fill(block, 500);
        fill(block + 1000, WORDS - 1000);
        fill(again, 1000);
        block[500] = written = (uint64_t)step;
    }
}

/* Each registers at its own call site. */
static __attribute__((noinline)) void register_first(void *at, size_t bytes) {
    CHECK(shmemx_ft_register(at, bytes) == SHMEM_FT_SUCCESS);
}

static __attribute__((noinline)) void register_second(void *at, size_t bytes) {
    CHECK(shmemx_ft_register(at, bytes) == SHMEM_FT_SUCCESS);
}

/* Private memory registered in another order, with another name, length, or not at all. */
static void private_memory(void) {
    static uint64_t *first, *second; /* the pointers are symmetric, their targets are not */
    uint64_t *one = malloc(WORDS), *other = malloc(WORDS);
    fill(one, WORDS / 8);
    fill(other, WORDS / 8);
    int again = !shmem_ft_algo_init();
    if (is("named") || is("named-missing") || is("named-length")) {
        if (!again)
            shmemx_ft_protect("one", one, WORDS);
        if (!again || !is("named-missing"))
            shmemx_ft_protect("other", other, again && is("named-length") ? 8 : WORDS);
        if (again)
            shmemx_ft_protect("one", one, WORDS);
    } else {
        if (!again)
            register_first(one, WORDS);
        if (!again || !is("places-missing"))
            register_second(other, again && is("places-length") ? 8 : WORDS);
        if (again)
            register_first(one, WORDS);
    }
    while (step < STEPS) {
        int whole = shmem_checkpoint_all() == SHMEM_FT_SUCCESS;
        if (!whole)
            recover();
        for (size_t at = 0; step && at < WORDS / 8; at++)
            CHECK(one[at] == value(at) && other[at] == ~value(at));
        if (!whole)
            continue;
        step++;
        for (size_t at = 0; at < WORDS / 8; at++)
            one[at] = value(at), other[at] = ~value(at);
    }
    first = one, second = other;
    free(first), free(second);
}

/* A counter registered in the step after a checkpoint, to which all then roll back. */
static void late(void) {
    uint64_t *counter = malloc(sizeof *counter);
    int registered = 0;
    *counter = 7;
    while (step < STEPS) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (!registered)
            CHECK(shmemx_ft_register(counter, sizeof *counter) == SHMEM_FT_SUCCESS);
        registered = 1;
        step++;
        *counter += 1;
    }
    CHECK(*counter == 7 + STEPS);
    free(counter);
}

/* More memory on PE 2 than on the others: refused everywhere, until the amounts are equal. */
static void uneven(void) {
    static char more[3 * 4096];
    size_t mine = shmem_my_pe() == 2 ? sizeof more : 64;
    CHECK(shmemx_ft_protect("more", malloc(sizeof more), mine) == SHMEM_FT_SUCCESS);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_FAILURE && !shmemx_ft_faulted());
    CHECK(shmemx_ft_last_error() && strstr(shmemx_ft_last_error(), "private memory"));
    CHECK(shmemx_ft_protect("more", more, sizeof more) == SHMEM_FT_SUCCESS);
    CHECK(shmem_checkpoint_all() == SHMEM_FT_SUCCESS);
}

int main(int argc, char **argv) {
    how = argc > 1 ? argv[1] : "";
    shmem_init();
    if (is("free") || is("include")) {
        if (shmem_ft_algo_init())
            forgotten();
        while (step < STEPS) {
            int whole = shmem_checkpoint_all() == SHMEM_FT_SUCCESS;
            if (!whole)
                recover();
            if (step)
                compare(block, WORDS);
            if (!whole)
                continue;
            step++;
            fill(block, WORDS);
        }
    } else if (is("move")) {
        moved();
    } else if (is("uneven")) {
        uneven();
    } else if (is("late")) {
        late();
    } else {
        private_memory();
    }
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        puts("regions ok");
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
