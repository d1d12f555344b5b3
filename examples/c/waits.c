/* waits: waiting for and testing one word and sets of words, with status arrays and vectors. */
#include "check.h"

enum { N = 8 };
static long word, words[N];
static int from[64];

/* Waits for each PE once, in order of arrival. */
static void whoever_comes_first(int me, int n_pes) {
    static int status[64];
    for (int pe = 0; pe < n_pes; pe++)
        shmem_int_p(&from[me], 1 + me, pe);
    for (int left = n_pes; left > 0; left--) {
        size_t pe = shmem_int_wait_until_any(from, (size_t)n_pes, status, SHMEM_CMP_NE, 0);
        CHECK(pe < (size_t)n_pes && !status[pe] && from[pe] == 1 + (int)pe);
        status[pe] = 1;
    }
    CHECK(shmem_int_wait_until_any(from, (size_t)n_pes, status, SHMEM_CMP_NE, 0) == SIZE_MAX);
}

static void sets(int next) {
    int without_two[N] = {0, 0, 1};
    size_t at[N];
    long each[N] = {1, 2, 3, 4, 5, 6, 7, 8}, one[3] = {1, 2, 1};
    CHECK(!shmem_long_test_all(words, N, without_two, SHMEM_CMP_NE, 0));
    shmem_barrier_all();
    for (int i = 0; i < N; i++)
        if (i != 2)
            shmem_long_p(&words[i], i + 1, next);
    shmem_long_wait_until_all_vector(words, N, without_two, SHMEM_CMP_EQ, each);
    CHECK(shmem_long_test_all_vector(words, N, without_two, SHMEM_CMP_EQ, each));
    shmem_long_wait_until_all(words, N, without_two, SHMEM_CMP_GT, 0);
    CHECK(shmem_long_wait_until_some(words, N, at, without_two, SHMEM_CMP_GE, 6) == 3);
    CHECK(at[0] == 5 && at[1] == 6 && at[2] == 7);
    CHECK(shmem_long_test_some(words, N, at, NULL, SHMEM_CMP_LE, 1) == 2 && at[1] == 2);
    CHECK(shmem_long_test_some_vector(words, 3, at, NULL, SHMEM_CMP_LT, one) == 1 && at[0] == 2);
    CHECK(shmem_long_wait_until_some_vector(words, 3, at, NULL, SHMEM_CMP_EQ, each) == 2);
    CHECK(shmem_long_wait_until_any_vector(words, 3, NULL, SHMEM_CMP_LT, one) == 2);
    CHECK(shmem_long_test_any_vector(words, 3, NULL, SHMEM_CMP_LT, one) == 2);
    CHECK(shmem_long_test_any(words, N, NULL, SHMEM_CMP_EQ, 9) == SIZE_MAX);
    CHECK(shmem_long_test_all(words, 0, NULL, SHMEM_CMP_EQ, 9));
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n_pes = shmem_n_pes(), next = (me + 1) % n_pes;
    CHECK(!shmem_long_test(&word, SHMEM_CMP_NE, 0));
    shmem_barrier_all();
    shmem_long_p(&word, 3 + me, next);
    shmem_long_wait_until(&word, SHMEM_CMP_GE, 3);
    CHECK(word == 3 + (me + n_pes - 1) % n_pes && shmem_long_test(&word, SHMEM_CMP_EQ, word));
    whoever_comes_first(me, n_pes);
    sets(next);
    return end_of("waits");
}
