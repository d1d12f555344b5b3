/* race: two threads of a PE increment one word; with an argument, under a lock. */
#include <pthread.h>
#include <shmem.h>

static long counter;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *count(void *locked) {
    for (int i = 0; i < 1000; i++) {
        if (locked)
            pthread_mutex_lock(&mutex);
        counter++;
        if (locked)
            pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, argc > 1 ? argv[1] : NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    shmem_finalize();
    return 0;
}
