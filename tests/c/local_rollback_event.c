/*
 * local_rollback_event: values that PEs draw locally, from a clock and as random numbers, in a
 * program of local_rollback.h. They enter what the PEs compute and send, and so the memory of two
 * PEs.
 *
 * what: plain   the values are kept for a local rollback (the default)
 *       unkept  they are not, so the substitute draws different ones
 */
#include "local_rollback.h"

static long drawn, sent, theirs;

static void turn(struct own *own) {
    int right = (own->me + 1) % own->n;
    struct {
        long time, number;
    } draw = {nanoseconds(), 0};
    FILE *source = fopen("/dev/urandom", "rb");
    CHECK(source && fread(&draw.number, sizeof draw.number, 1, source) == 1);
    fclose(source);
    if (!is(own, "unkept"))
        CALL(shmemx_ft_event(&draw, sizeof draw));
    drawn = drawn * 3 + draw.time + draw.number;
    CALL(shmem_long_p(&sent, drawn, right));
    CALL(shmem_barrier_all());
    CALL(shmem_long_get(&theirs, &sent, 1, right));
    CHECK(shmemx_ft_faulted() || theirs == drawn);
    value++;
    CALL(shmem_barrier_all());
}
