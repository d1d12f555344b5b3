/*
 * large: at its third checkpoint it has MIB more memory than at the second, perhaps too much.
 *
 * usage: large HOW MIB
 *
 * ask      asks for the reason, frees the memory and continues
 * die      PE 1 kills itself after the refusal, so that all roll back to the second checkpoint
 * ignore   has only the thesis' loop; at its fifth checkpoint it has freed the memory
 * late     like ignore, and PE 1 kills itself before the fifth
 */
#include "test.h"

#include <signal.h>

enum { SMALL = 1 << 20 };

static long step;
static unsigned char *small, *large;

static void fill(int value) {
    memset(small, value + shmem_my_pe(), SMALL);
}

static void verify(int value) {
    for (int i = 0; i < SMALL; i++)
        CHECK(small[i] == (unsigned char)(value + shmem_my_pe()));
}

int main(int argc, char **argv) {
    const char *how = argc > 2 ? argv[1] : "ask";
    int ignores = !strcmp(how, "ignore") || !strcmp(how, "late");
    size_t bytes = (size_t)(argc > 2 ? atol(argv[2]) : 1) << 20;
    int restarted = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    shmem_init();
    for (;;) {
        uint64_t number = shmemx_ft_checkpoint_number();
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            if (ignores) {
                int lost = shmemx_ft_faulted();
                recover();
                restarted |= lost;
                CHECK(step == (lost ? 1 : 2));
                continue;
            }
            const char *error = shmemx_ft_last_error();
            if (!error) {
                CHECK(shmemx_ft_faulted());
                recover();
                CHECK(step == 1);
                verify(10);
                restarted = 1;
                continue;
            }
            CHECK(!shmemx_ft_faulted() && shmemx_ft_checkpoint_number() == number);
            printf("PE %d is refused: %s\n", shmem_my_pe(), error);
            shmem_barrier_all(); /* all have checked */
            if (!strcmp(how, "die") && shmem_my_pe() == 1 && shmem_ft_algo_init() && !restarted)
                raise(SIGKILL);
            verify(20);
            shmem_free(large);
            large = NULL;
            step = 3;
            continue;
        }
        if (shmemx_ft_last_error()) {
            CHECK(ignores && shmemx_ft_checkpoint_number() == number);
            printf("PE %d is refused: %s\n", shmem_my_pe(), shmemx_ft_last_error());
        } else {
            CHECK(shmemx_ft_checkpoint_number() == number + 1);
        }
        if (step == 4)
            break;
        switch (step) {
        case 0:
            small = shmem_malloc(SMALL);
            CHECK(small);
            fill(10);
            break;
        case 1:
            large = shmem_malloc(bytes);
            CHECK(large);
            large[0] = large[bytes - 1] = 5;
            fill(20);
            break;
        case 2:
            CHECK(large[0] == 5 && large[bytes - 1] == 5);
            verify(20);
            break;
        case 3:
            verify(20);
            if (!strcmp(how, "late") && shmem_my_pe() == 1 && shmem_ft_algo_init() && !restarted)
                raise(SIGKILL);
            shmem_free(large);
            fill(30);
            break;
        }
        step++;
    }
    verify(30);
    printf("PE %d is done\n", shmem_my_pe());
    shmem_finalize();
    return 0;
}
