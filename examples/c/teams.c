/* teams: strided and two-dimensional splits, translated PE numbers, contexts of teams. */
#include "check.h"

static int me, n_pes;
static long word, sum, row[64];

static void even_and_odd(void) {
    shmem_team_t team = SHMEM_TEAM_INVALID, none;
    shmem_team_config_t config = {.num_contexts = 3}, back = {0};
    int parity = me % 2, size = (n_pes + 1 - parity) / 2;
    /* All PEs of the parent make the call; those with the same arguments form a team. */
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, parity, 2, size, &config,
                                   SHMEM_TEAM_NUM_CONTEXTS, &team) == 0);
    CHECK(team != SHMEM_TEAM_INVALID && shmem_team_n_pes(team) == size);
    CHECK(shmem_team_my_pe(team) == me / 2);
    CHECK(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &back) == 0);
    CHECK(back.num_contexts == 3);
    CHECK(shmem_team_translate_pe(team, 0, SHMEM_TEAM_WORLD) == parity);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1 - parity, team) == -1);
    CHECK(shmem_team_ptr(team, &word, me / 2) == &word);

    word = me;
    shmem_team_sync(team);
    CHECK(shmem_long_sum_reduce(team, &sum, &word, 1) == 0);
    CHECK(sum == (long)parity * size + (long)size * (size - 1));

    shmem_ctx_t ctx;
    shmem_team_t whose = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_create_ctx(team, SHMEM_CTX_PRIVATE, &ctx) == 0);
    CHECK(shmem_ctx_get_team(ctx, &whose) == 0 && whose == team);
    int last = size - 1;
    CHECK(shmem_ctx_long_g(ctx, &word, last) == parity + 2 * last); /* counted in the team */
    shmem_ctx_destroy(ctx);
    CHECK(shmem_team_split_strided(team, 0, 1, size + 1, NULL, 0, &none) != 0);
    CHECK(none == SHMEM_TEAM_INVALID);
    shmem_team_destroy(team);
}

static void rows_and_columns(void) {
    int width = n_pes > 2 ? 2 : 1;
    shmem_team_t x, y;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, width, NULL, 0, &x, NULL, 0, &y) == 0);
    int line = me / width, in_line = n_pes - line * width < width ? n_pes - line * width : width;
    CHECK(shmem_team_my_pe(x) == me % width && shmem_team_my_pe(y) == line);
    CHECK(shmem_team_n_pes(x) == in_line);
    word = me;
    shmem_team_sync(x);
    CHECK(shmem_long_fcollect(x, row, &word, 1) == 0);
    for (int i = 0; i < in_line; i++)
        CHECK(row[i] == line * width + i);
    shmem_team_sync(y);
    CHECK(shmem_long_max_reduce(y, &sum, &word, 1) == 0);
    CHECK(sum == me % width + (long)width * (shmem_team_n_pes(y) - 1));
    shmem_team_destroy(x);
    shmem_team_destroy(y);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe(), n_pes = shmem_n_pes();
    CHECK(shmem_team_n_pes(SHMEM_TEAM_WORLD) == n_pes);
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, 0, SHMEM_TEAM_WORLD) >= 0);
    if (n_pes > 1)
        even_and_odd();
    for (int times = 0; times < 3; times++)
        rows_and_columns();
    return end_of("teams");
}
