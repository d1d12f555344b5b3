// overloads: the type-generic names as C++ overloads, from templates, for each element type.
#include <shmem.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace {

long failures;

void check(bool holds, const char *what, int line) {
    if (!holds) {
        failures++;
        std::fprintf(stderr, "PE %d: line %d: %s\n", shmem_my_pe(), line, what);
    }
}
#define CHECK(...) check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __LINE__)

int next_pe() {
    return (shmem_my_pe() + 1) % shmem_n_pes();
}

int prev_pe() {
    return (shmem_my_pe() + shmem_n_pes() - 1) % shmem_n_pes();
}

template <typename T>
T *symmetric(std::size_t count) {
    return static_cast<T *>(shmem_calloc(count, sizeof(T)));
}

template <typename T>
void transfers() {
    constexpr int count = 8;
    T *there = symmetric<T>(count), own[count], got[count] = {};
    for (int i = 0; i < count; i++)
        own[i] = static_cast<T>(10 * (shmem_my_pe() % 4) + i);
    shmem_put(there, own, count, next_pe());
    shmem_barrier_all();
    for (int i = 0; i < count; i++)
        CHECK(there[i] == static_cast<T>(10 * (prev_pe() % 4) + i));
    shmem_get(SHMEM_CTX_DEFAULT, got, there, count, next_pe());
    CHECK(std::memcmp(got, own, sizeof(long) < sizeof(T) ? sizeof(T) / 2 : sizeof own) == 0);
    shmem_iget(got, there, 1, 2, count / 2, next_pe());
    CHECK(got[count / 2 - 1] == own[count - 2]);
    shmem_barrier_all();
    shmem_p(there, static_cast<T>(42), next_pe());
    shmem_barrier_all();
    CHECK(shmem_g(there, next_pe()) == static_cast<T>(42));
    T *most = symmetric<T>(1);
    there[0] = static_cast<T>(shmem_my_pe());
    shmem_barrier_all();
    CHECK(shmem_max_reduce(SHMEM_TEAM_WORLD, most, there, 1) == 0);
    CHECK(most[0] == static_cast<T>(shmem_n_pes() - 1));
    shmem_free(most);
    shmem_free(there);
}

template <typename T>
void atomics() {
    T *word = symmetric<T>(1);
    for (int i = 0; i < 100; i++)
        shmem_atomic_add(word, static_cast<T>(2), 0);
    shmem_atomic_inc(SHMEM_CTX_DEFAULT, word, 0);
    shmem_barrier_all();
    CHECK(shmem_atomic_fetch(word, 0) == static_cast<T>(201 * shmem_n_pes()));
    shmem_barrier_all();
    shmem_atomic_set(word, static_cast<T>(7), next_pe());
    shmem_wait_until(word, SHMEM_CMP_EQ, static_cast<T>(7));
    T seven = static_cast<T>(7), eight = static_cast<T>(8);
    CHECK(shmem_atomic_compare_swap(word, seven, eight, shmem_my_pe()) == 7);
    CHECK(shmem_atomic_swap(word, static_cast<T>(9), shmem_my_pe()) == 8);
    shmem_barrier_all();
    shmem_free(word);
}

template <typename... T>
void all_transfers() {
    (transfers<T>(), ...);
}

template <typename... T>
void all_atomics() {
    (atomics<T>(), ...);
}

} // namespace

int main() {
    shmem_init();
    all_transfers<float, double, long double, char, signed char, short, int, long, long long,
                  unsigned char, unsigned short, unsigned, unsigned long, unsigned long long,
                  std::int8_t, std::uint64_t, std::size_t, std::ptrdiff_t>();
    all_atomics<int, long, long long, unsigned, unsigned long, unsigned long long, std::int32_t,
                std::uint64_t, std::size_t, std::ptrdiff_t>();
    static long all;
    shmem_barrier_all();
    shmem_atomic_add(&all, failures, 0);
    shmem_barrier_all();
    long failed = shmem_g(&all, 0);
    if (shmem_my_pe() == 0)
        std::printf(failed ? "overloads: FAILED\n" : "overloads: ok\n");
    shmem_finalize();
    return failed != 0;
}
