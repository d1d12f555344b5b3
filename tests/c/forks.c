/*
 * forks: children of a PE keep changes to their static variables to themselves, however they end,
 * and start with their parent's values at the fork.
 *
 * A second thread of the parent keeps counting during the fork, the parent changes a variable right
 * afterwards, and a neighbour puts into another one, so a child that shared a page would see it.
 */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 6, LARGE = 1 << 20 };

static long round_, mine, put_by_peer, sparse[LARGE];
static char destroyed;
static atomic_long counter;
static atomic_int stops;

/* Acts as the destructor of a C++ object. */
static void destroy(void) { destroyed = 1; }

static void handler_of_child(void) { destroyed = 2; }

static void *count(void *nothing) {
    while (!stops)
        counter++;
    return nothing;
}

/* Runs a child, which ends in the way that `how` numbers. */
static void child(int how, int pipe, long expected) {
    char byte;
    if (read(pipe, &byte, 1) != 1) /* the parent has written to the variable */
        _exit(1);
    if (mine != expected || destroyed != 2 || sparse[LARGE / 2] != expected)
        _exit(2);
    long counted = counter;
    mine = -1;
    put_by_peer = -1;
    destroyed = 1;
    sparse[LARGE / 2] = sparse[7] = -1;
    if (counter != counted)
        _exit(3);
    if (how == 0)
        _exit(0);
    if (how == 1)
        exit(0);
    if (how == 2)
        kill(getpid(), SIGKILL);
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(mine == -1 ? 0 : 4);
    mine = -2;
    int status;
    waitpid(grandchild, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
}

static void fork_one(int how) {
    long before = mine;
    int pipes[2];
    pthread_t thread;
    sparse[LARGE / 2] = mine;
    stops = 0;
    CHECK(!pipe(pipes) && !pthread_create(&thread, NULL, count, NULL));
    pid_t pid = fork();
    if (pid == 0)
        child(how, pipes[0], before);
    CHECK(pid > 0);
    mine++;
    CHECK(write(pipes[1], "", 1) == 1);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    stops = 1;
    CHECK(!pthread_join(thread, NULL) && !close(pipes[0]) && !close(pipes[1]));
    CHECK(how == 2 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(mine == before + 1 && destroyed == 0 && put_by_peer >= 0);
    CHECK(sparse[7] == 0 && sparse[LARGE / 2] == before);
}

/* A child that cannot get memory ends; its parent continues. */
static void without_memory(void) {
    struct rlimit old, none = {0};
    CHECK(!getrlimit(RLIMIT_AS, &old));
    none.rlim_cur = 1 << 20, none.rlim_max = old.rlim_max;
    CHECK(!setrlimit(RLIMIT_AS, &none));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK(!setrlimit(RLIMIT_AS, &old));
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

int main(int argc, char **argv) {
    (void)argv;
    CHECK(!pthread_atfork(NULL, NULL, handler_of_child) && !atexit(destroy));
    shmem_init();
    if (argc > 1)
        without_memory();
    for (;;) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        if (round_ == ROUNDS)
            break;
        round_++;
        for (int how = 0; how < 4; how++) {
            fork_one(how);
            shmem_long_p(&put_by_peer, round_, (shmem_my_pe() + 1) % shmem_n_pes());
        }
        shmem_barrier_all();
    }
    if (shmem_my_pe() == 0)
        printf("forks ok\n");
    shmem_finalize();
    return 0;
}
