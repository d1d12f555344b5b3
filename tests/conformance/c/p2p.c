/* p2p: waiting and testing in every type, on one word and on sets, with and without vectors. */
#include "common.h"

enum { N = 6 };

#define CALL(op, ...) CAT4(shmem_, NAME, _, op)(__VA_ARGS__)

#define BODY "p2p_one.inc"
#include "each_P2P.h"
#undef BODY
#define BODY "p2p_sets.inc"
#include "each_AMO.h"
#undef BODY
#define BODY "p2p_old.inc"
#include "each_OLDWAIT.h"
#undef BODY

#define ONE(name, type) one_##name();
#define SETS(name, type) sets_##name();
#define OLD(name, type) old_##name();

static void untyped(void) {
#undef WHAT
#define WHAT "untyped waits"
    static long word;
    shmem_barrier_all();
    shmem_long_p(&word, 4, next);
    (shmem_wait)(&word, 0);
    (shmem_wait_until)(&word, SHMEM_CMP_GT, 3);
    EXPECT(word == 4);
}

int main(void) {
    begin();
    TYPES_P2P(ONE)
    TYPES_AMO(SETS)
    TYPES_OLDWAIT(OLD)
    untyped();
    return end("p2p");
}
