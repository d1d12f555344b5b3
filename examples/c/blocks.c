/* blocks: strided block transfers, new in OpenSHMEM 1.6. A column of tiles goes around a ring. */
#include "check.h"

enum { ROWS = 6, TILE = 3, WIDTH = 12 };

static int matrix[ROWS][WIDTH];

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes(), next = (me + 1) % n_pes;
    int prev = (me + n_pes - 1) % n_pes, tiles[ROWS][TILE], back[ROWS * 4] = {0};
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < TILE; i++)
            tiles[row][i] = 100 * me + 10 * row + i;
    shmem_barrier_all();
    shmem_int_ibput(&matrix[0][4], &tiles[0][0], WIDTH, TILE, TILE, ROWS, next);
    shmem_barrier_all();
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < WIDTH; i++) {
            int inside = i >= 4 && i < 4 + TILE;
            CHECK(matrix[row][i] == (inside ? 100 * prev + 10 * row + i - 4 : 0));
        }
    shmem_ibget32(back, &matrix[0][4], 4, WIDTH, TILE, ROWS, next);
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < TILE; i++)
            CHECK(back[4 * row + i] == tiles[row][i]);
        CHECK(back[4 * row + TILE] == 0);
    }
    shmem_ibget(&back[0], &matrix[0][0], 1, WIDTH, (size_t)1, (size_t)ROWS, me);
    CHECK(back[0] == 0);
    return end_of("blocks");
}
