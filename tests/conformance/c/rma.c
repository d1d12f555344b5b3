/* rma: every form of put, get and put-with-signal in every type and size, also in a context. */
#include "common.h"

enum { N = 12 };

static shmem_ctx_t ctx; /* of a team with the PEs in reverse order */
static uint64_t signal_word;

#define BODY "rma.inc"
#define HAS_SINGLE 1
#define HAS_STRIDED 1
#define SYMBOL(pre, op, post) CAT4(pre, NAME, _, op##post)
#include "each_RMA.h"
#undef SYMBOL
#undef HAS_SINGLE
#define HAS_SINGLE 0
#define SYMBOL(pre, op, post) CAT4(pre, op, NAME, post)
#include "each_SIZES.h"
#undef HAS_STRIDED
#define HAS_STRIDED 0
#define UNIT 1
#define NAME mem
#define TYPE unsigned char
#include BODY
#undef NAME
#undef TYPE

#define RUN(name, type) rma_plain_##name(), rma_ctx_##name();

int main(void) {
    begin();
    shmem_team_t reversed;
    if (shmem_team_split_strided(SHMEM_TEAM_WORLD, n_pes - 1, -1, n_pes, NULL, 0, &reversed) ||
        shmem_team_create_ctx(reversed, 0, &ctx))
        shmem_global_exit(3);
    TYPES_RMA(RUN)
    TYPES_SIZES(RUN)
    RUN(mem, )
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(reversed);
    return end("rma");
}
