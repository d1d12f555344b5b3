/*
 * pause: rewrites its memory at each step, with a checkpoint after each, and checks it after a
 * restart. `pause still` writes the same data each time; `pause readonly` declares most of it so.
 *
 * PE 0 makes a fifo `go` in its folder. When checkpoint 3 is agreed and all have compared their
 * memory, it prints `ready` and waits until a test has opened and closed the fifo; the other PEs
 * wait for it in a barrier. The other checkpoints do not pause.
 */
#define _POSIX_C_SOURCE 200809L /* mkfifo, also with -std=c11 */

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 5, WORDS = 9 * 8192 };

static long step;
static int still, readonly;
static uint64_t *data;
static uint64_t table[WORDS / 16];

static uint64_t value(size_t at) {
    return mixed(mixed((uint64_t)shmem_my_pe() << 32 | (uint64_t)(still ? 0 : step), at), 7);
}

static void fill(void) {
    for (size_t at = 0; at < WORDS && !(readonly && step); at++)
        data[at] = value(at);
    for (size_t at = 0; at < WORDS / 16; at++)
        table[at] = value(at + WORDS);
}

static void verify(void) {
    for (size_t at = 0; at < WORDS; at++)
        CHECK(data[at] == value(at));
    for (size_t at = 0; at < WORDS / 16; at++)
        CHECK(table[at] == value(at + WORDS));
}

static void wait_for_go(void) {
    char byte;
    printf("ready\n");
    int go = open("go", O_RDONLY);
    CHECK(go >= 0);
    while (read(go, &byte, 1) > 0)
        ;
    close(go);
    unlink("go");
}

int main(int argc, char **argv) {
    readonly = argc > 1 && !strcmp(argv[1], "readonly");
    still = argc > 1 && (readonly || !strcmp(argv[1], "still"));
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    if (shmem_my_pe() == 0 && shmem_ft_algo_init())
        CHECK(mkfifo("go", 0600) == 0);
    data = shmem_malloc(WORDS * sizeof *data);
    CHECK(data);
    if (shmem_ft_algo_init())
        fill();
    CHECK(!readonly || shmemx_ft_readonly(data, WORDS * sizeof *data) == SHMEM_FT_SUCCESS);
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            verify();
            continue;
        }
        verify();
        shmem_barrier_all(); /* from here on no PE reads memory that a test may damage */
        if (shmem_my_pe() == 0 && shmemx_ft_checkpoint_number() == 3 && access("go", F_OK) == 0)
            wait_for_go();
        shmem_barrier_all();
        if (step == STEPS)
            break;
        step++;
        fill();
    }
    printf("PE %d is done\n", shmem_my_pe());
    shmem_finalize();
    return 0;
}
