/* append: PE 0 appends a line to a file for each step. It makes the line before a checkpoint, and
 * writes it after that, at an offset that the checkpoint holds. After a rollback it writes the same
 * bytes to the same place again. */
#include "../c/survive.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20 };

static unsigned long total, done;
static char line[80]; /* of the last step, not written yet */
static off_t length;  /* of the file without it */

static void append(int file) {
    size_t bytes = strlen(line);
    off_t end = length + (off_t)bytes;
    if (pwrite(file, line, bytes, length) != (ssize_t)bytes || ftruncate(file, end)) {
        perror("append.txt");
        shmem_global_exit(1);
    }
    length = end;
    line[0] = 0;
}

static void step(int me) {
    total += sum_of_all(mix(done * 1000 + (unsigned long)me) % 1000);
    done++;
    snprintf(line, sizeof line, "step %lu: total %lu\n", done, total);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), file = -1; /* a static one would get the number of the lost process */
    if (me == 0)
        file = open("append.txt", O_RDWR | O_CREAT | (shmem_ft_algo_init() ? O_TRUNC : 0), 0644);
    for (;;) {
        saved();
        if (me == 0)
            append(file);
        if (done == STEPS)
            break;
        step(me);
    }
    if (me == 0)
        printf("append: %lu steps, total %lu, %ld bytes\n", done, total, (long)length);
    shmem_finalize();
    return 0;
}
