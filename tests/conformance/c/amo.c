/* amo: every atomic in every type, blocking and not, plain and in a context, and the old names. */
#include "common.h"

static shmem_ctx_t ctx; /* of a team with the PEs in reverse order */

#define PLAIN(op, ...) CAT4(shmem_, NAME, _atomic_, op)(__VA_ARGS__)
#define IN_CTX(op, ...) CAT4(shmem_ctx_, NAME, _atomic_, op)(ctx, __VA_ARGS__)
#define OLD(op, ...) CAT4(shmem_, NAME, _, op)(__VA_ARGS__)
#define SAME(world_pe) (world_pe)
#define TURNED(world_pe) (n_pes - 1 - (world_pe))

#define BODY "amo_ext.inc"
#include "each_EXT.h"
#undef BODY
#define BODY "amo_int.inc"
#include "each_AMO.h"
#undef BODY
#define BODY "amo_bit.inc"
#include "each_BIT.h"
#undef BODY
#define BODY "amo_old.inc"
#include "each_OLDEXT.h"
#undef BODY
#define BODY "amo_old_int.inc"
#include "each_OLDAMO.h"
#undef BODY

#define EXT(name, type) ext_plain_##name(), ext_ctx_##name();
#define INT(name, type) int_plain_##name(), int_ctx_##name();
#define BIT(name, type) bit_plain_##name(), bit_ctx_##name();
#define OLD_EXT(name, type) old_##name();
#define OLD_INT(name, type) old_int_##name();

int main(void) {
    begin();
    shmem_team_t reversed;
    if (shmem_team_split_strided(SHMEM_TEAM_WORLD, n_pes - 1, -1, n_pes, NULL, 0, &reversed) ||
        shmem_team_create_ctx(reversed, 0, &ctx))
        shmem_global_exit(3);
    TYPES_EXT(EXT)
    TYPES_AMO(INT)
    TYPES_BIT(BIT)
    TYPES_OLDEXT(OLD_EXT)
    TYPES_OLDAMO(OLD_INT)
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(reversed);
    return end("amo");
}
