/*
 * exits: ends in the way that its argument names. `CODE` is a second argument, `PE` a third: only
 * that PE does it, and the others end normally (without it, all PEs do it).
 *
 * finalize   return CODE after shmem_finalize
 * close      close every descriptor after shmem_init, and continue
 * linger     print a line after shmem_finalize, and do not end
 * silent     return CODE without it, after a line that was not flushed
 * thread     exit(CODE) without it, in another thread
 * last       main ends by pthread_exit, and another thread calls shmem_finalize and returns
 * lastly     like last, but the other thread only returns
 * latest     main ends by pthread_exit after shmem_finalize, and another thread returns
 * fork       a child calls exit(0), another also shmem_finalize; then end normally
 * nothing    _exit(CODE) without it
 * twice      shmem_finalize twice
 * early      exit with CODE before shmem_init
 * global     shmem_global_exit(CODE)
 * abort      abort()
 * segfault   raise(SIGSEGV)
 * divide     raise(SIGFPE)
 * show       print the environment's variables for UCX, and end normally
 * full       ask for more memory than the heap has
 * child      start a process that sleeps for long, and end normally
 * daemon     start one in its own session
 */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void show(void) {
    for (char **word = environ; *word; word++)
        if (!strncmp(*word, "UCX_", 4))
            printf("%s\n", *word);
}

static void start_sleeper(int own_session) {
    if (fork() == 0) {
        if (own_session && setsid() > 0 && fork() != 0)
            _exit(0);
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(127);
    }
    if (own_session)
        wait(NULL);
}

static void *leave(void *code) {
    exit(*(int *)code);
}

static void *end_last(void *how) {
    if (!strcmp(how, "last"))
        shmem_finalize();
    printf("unflushed words of the last thread\n");
    return NULL;
}

/* A child of a PE is not a PE, whatever it calls. */
static void end_children(void) {
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        if (fork() == 0) {
            if (i == 1)
                shmem_finalize();
            exit(0);
        }
        wait(NULL);
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "finalize";
    int code = argc > 2 ? atoi(argv[2]) : 0, only = argc > 3 ? atoi(argv[3]) : -1;
    if (!strcmp(how, "early"))
        exit(code);
    shmem_init();
    int mine = only < 0 || only == shmem_my_pe();
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        recover();
    if (mine) {
        if (!strcmp(how, "silent")) {
            printf("unflushed words of PE %d\n", shmem_my_pe());
            return code;
        }
        if (!strcmp(how, "thread")) {
            pthread_t thread;
            pthread_create(&thread, NULL, leave, &code);
            pause();
        }
        if (!strncmp(how, "last", 4) || !strcmp(how, "latest")) {
            pthread_t thread;
            if (!strcmp(how, "latest"))
                shmem_finalize();
            pthread_create(&thread, NULL, end_last, argv[1]);
            pthread_exit(NULL);
        }
        if (!strcmp(how, "fork"))
            end_children();
        if (!strcmp(how, "nothing"))
            _exit(code);
        if (!strcmp(how, "twice"))
            shmem_finalize();
        if (!strcmp(how, "global"))
            shmem_global_exit(code);
        if (!strcmp(how, "abort"))
            abort();
        if (!strcmp(how, "segfault"))
            raise(SIGSEGV);
        if (!strcmp(how, "divide"))
            raise(SIGFPE);
        if (!strcmp(how, "full"))
            for (int i = 0; i < 2; i++)
                CHECK(shmem_malloc(8 << 20) == NULL && shmem_calloc(8 << 10, 1 << 10) == NULL);
        if (!strcmp(how, "show"))
            show();
        if (!strcmp(how, "close"))
            for (int fd = 3; fd < 256; fd++)
                close(fd);
        if (!strcmp(how, "child") || !strcmp(how, "daemon"))
            start_sleeper(!strcmp(how, "daemon"));
    }
    shmem_finalize();
    if (mine && !strcmp(how, "linger")) {
        printf("PE lingers\n");
        fflush(stdout);
        pause();
    }
    return !strcmp(how, "finalize") && mine ? code : 0;
}
