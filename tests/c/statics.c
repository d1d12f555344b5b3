/*
 * statics: variables of every kind roll back with a checkpoint; libc's own do not.
 *
 * At checkpoint n every variable holds a value made from n; then all are overwritten with other
 * values, which a death must undo in survivors and in the substitute. Output, errno, environment
 * and the program's arguments keep working in both.
 */
#include "test.h"

#include <errno.h>
#include <getopt.h>

enum { STEPS = 6, LARGE = 50000 };

extern char **environ;

struct record {
    long number;
    const char *text;
    int (*function)(int);
};

static int twice(int x) { return 2 * x; }
static int thrice(int x) { return 3 * x; }

static long step;                               /* .bss */
static long initialised = 41;                   /* .data */
static double large[LARGE];                     /* .bss, many pages */
static int filled[1000] = {1, 2, 3};            /* .data, with an initializer */
static struct record record = {0, "none", twice}; /* .data, with relocations */
static long *into_large;                        /* a pointer to a static variable */
static long **into_heap;                        /* one to symmetric memory, which points back */
long common_symbol;                             /* not static: exported */
static const char constant[] = "constant";
#ifdef ALIGNED /* in its own segment, if larger than a page */
static _Alignas(ALIGNED) double aligned[LARGE];
static _Alignas(ALIGNED) long aligned_data[3] = {1, 2, 3};
#endif

static long *local_static(void) {
    static long value = 7;
    return &value;
}

static const char *text_of(long n) { return n % 2 ? "odd" : "even"; }

/* Sets everything to its value at checkpoint n. */
static void set(long n) {
    initialised = 41 + n;
    for (int i = 0; i < LARGE; i++)
        large[i] = (double)(n * i);
    filled[999] = (int)n;
    record = (struct record){n, text_of(n), n % 2 ? thrice : twice};
#ifdef ALIGNED
    for (int i = 0; i < LARGE; i++)
        aligned[i] = (double)(n + i);
    aligned_data[1] = n;
#endif
    into_large = n % 2 ? &initialised : &common_symbol;
    common_symbol = -n;
    *local_static() = 7 * n;
    *into_heap = local_static();
}

static void verify(long n) {
    CHECK(initialised == 41 + n);
    for (int i = 0; i < LARGE; i++)
        CHECK(large[i] == (double)(n * i));
#ifdef ALIGNED
    for (int i = 0; i < LARGE; i++)
        CHECK(aligned[i] == (double)(n + i) && (size_t)aligned % ALIGNED == 0);
    CHECK(aligned_data[0] == 1 && aligned_data[1] == n && aligned_data[2] == 3);
#endif
    CHECK(filled[0] == 1 && filled[2] == 3 && filled[999] == (int)n);
    CHECK(record.number == n && !strcmp(record.text, text_of(n)));
    CHECK(record.function(5) == (n % 2 ? 15 : 10));
    CHECK(*into_large == (n % 2 ? 41 + n : -n));
    CHECK(*local_static() == 7 * n);
    CHECK(**into_heap == 7 * n);
    CHECK(!strcmp(constant, "constant"));
}

/* State that a checkpoint must not touch. */
static void verify_libc(int argc, char **argv) {
    errno = EDOM;
    CHECK(fopen("/no/such/file", "r") == NULL && errno == ENOENT);
    CHECK(getenv("PROCESS_TEST_JOB") && environ && environ[0]);
    char value[32];
    snprintf(value, sizeof value, "%ld", step);
    CHECK(setenv("STEP", value, 1) == 0 && !strcmp(getenv("STEP"), value));
    CHECK(argc == 3 && !strcmp(argv[1], "-x") && !strcmp(argv[2], "last"));
    void *block = malloc(100000);
    CHECK(block);
    free(block);
    CHECK(stdout && stderr && stdin);
    CHECK(printf("PE %d at step %ld\n", shmem_my_pe(), step) > 0);
}

int main(int argc, char **argv) {
    CHECK(getopt(argc, argv, "x") == 'x' && optind == 2);
    CHECK(setvbuf(stdout, NULL, _IOLBF, 0) == 0);
    shmem_init();
    CHECK(optind == 2);
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            verify_libc(argc, argv);
            if (step > 0)
                verify(step);
            CHECK(optind == 2);
            continue;
        }
        if (step > 0)
            verify(step);
        if (step == STEPS)
            break;
        verify_libc(argc, argv);
        if (step == 0) {
            into_heap = shmem_malloc(sizeof *into_heap);
            CHECK(into_heap);
        }
        set(1000 + step); /* undone by what follows, or by a restart */
        verify(1000 + step);
        shmem_barrier_all();
        step++;
        set(step);
    }
    if (shmem_my_pe() == 0)
        printf("statics ok\n");
    shmem_finalize();
    return 0;
}
