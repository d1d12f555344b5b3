/* coll: collectives in every type over the world, over it reversed and over every second PE; and
 * over active sets. The expected results are computed from every PE's known values. */
#include "common.h"

enum { N = 7, TEAMS = 3 };

/* The PEs first, first + stride, .. of the world; this PE has number `index` among them. */
static struct {
    shmem_team_t team;
    int first, stride, size, index;
} set;

static long pSync[SHMEM_REDUCE_SYNC_SIZE], pSync2[SHMEM_REDUCE_SYNC_SIZE];
static int log_stride;

static int member(long index) {
    return set.first + (int)index * set.stride;
}

#define CALL(op, ...) CAT4(shmem_, NAME, _, op)(__VA_ARGS__)
#define MEET() shmem_team_sync(set.team)
#define MEET_SET() (shmem_barrier)(set.first, log_stride, set.size, pSync2)
#define ACTIVE set.first, log_stride, set.size

#define BODY "coll_move.inc"
#define HAS_STRIDES 1
#include "each_RMA.h"
#undef BODY
#define BODY "coll_order.inc"
#include "each_RMA.h"
#undef BODY
#define BODY "coll_sum.inc"
#include "each_SUM.h"
#undef BODY
#define BODY "coll_and.inc"
#include "each_AND.h"
#undef BODY
#define BODY "coll_old_and.inc"
#include "each_OLDAND.h"
#undef BODY
#define BODY "coll_old_max.inc"
#include "each_OLDMAX.h"
#undef BODY
#define BODY "coll_old_sum.inc"
#include "each_OLDSUM.h"
#undef BODY
#define BODY "coll_old_move.inc"
#include "each_SETS.h"
#undef BODY
#undef CALL
#define CALL(op, ...) CAT4(shmem_, op, NAME, )(__VA_ARGS__)
#define UNIT 1
#define NAME mem
#define TYPE unsigned char
#include "coll_move.inc"

#define MOVE(name, type) move_##name();
#define ORDER(name, type) order_##name();
#define SUM(name, type) sum_##name();
#define AND(name, type) and_##name();
#define OLD_AND(name, type) old_and_##name();
#define OLD_MAX(name, type) old_max_##name();
#define OLD_SUM(name, type) old_sum_##name();
#define OLD_MOVE(name, type) old_move_##name();

static void over_team(int first, int stride, int size) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    if (shmem_team_split_strided(SHMEM_TEAM_WORLD, first, stride, size, NULL, 0, &team))
        shmem_global_exit(3);
    if (team == SHMEM_TEAM_INVALID)
        return;
    set.team = team, set.first = first, set.stride = stride, set.size = size;
    set.index = shmem_team_my_pe(team);
    TYPES_RMA(MOVE)
    MOVE(mem, )
    TYPES_RMA(ORDER)
    TYPES_SUM(SUM)
    TYPES_AND(AND)
    MEET();
    shmem_team_destroy(team);
}

static void over_active_set(void) {
    set.first = 0, set.stride = 1 << log_stride;
    set.size = (n_pes + set.stride - 1) >> log_stride;
    if (me % set.stride)
        return;
    set.index = me / set.stride;
    TYPES_OLDAND(OLD_AND)
    TYPES_OLDMAX(OLD_MAX)
    TYPES_OLDSUM(OLD_SUM)
    TYPES_SETS(OLD_MOVE)
    (shmem_sync)(ACTIVE, pSync2);
}

int main(void) {
    begin();
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        pSync[i] = pSync2[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    over_team(0, 1, n_pes);
    over_team(n_pes - 1, -1, n_pes);
    over_team(0, 2, (n_pes + 1) / 2);
    shmem_barrier_all();
    for (log_stride = 0; log_stride < 3; log_stride++) {
        over_active_set();
        shmem_barrier_all();
    }
    return end("coll");
}
