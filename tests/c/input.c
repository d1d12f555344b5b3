/*
 * input: PE 0 adds a line of its standard input in each of 8 steps, with a checkpoint before each,
 * and prints the sum; `none` if there were no more lines. It reads byte by byte, so that its
 * substitute gets all input that it has not added.
 */
#include "test.h"

#include <unistd.h>

static long step, sum;
static int is_over;

static void nothing(void) {}

static void add_line(void) {
    char line[32] = "", *at = line;
    while (at < line + sizeof line - 1 && read(0, at, 1) == 1) {
        if (*at++ == '\n') {
            sum += strtol(line, NULL, 10);
            return;
        }
    }
    is_over = 1;
}

int main(void) {
    shmem_init();
    for (;;) {
        if (!saved(nothing))
            continue;
        if (step++ == 8)
            break;
        if (shmem_my_pe() == 0)
            add_line();
    }
    if (shmem_my_pe() == 0)
        printf("sum %ld%s\n", sum, is_over ? ", none left" : "");
    shmem_finalize();
    return 0;
}
