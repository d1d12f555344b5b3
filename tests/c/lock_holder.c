/*
 * lock_holder: a lock under contention, and PEs that are killed while they hold it or wait for it.
 *
 * A round is a number of turns; in a turn a PE adds one to a counter on PE 0 in two steps, which
 * only the lock protects. With an argument, that PE kills itself in the third round while it holds
 * the lock, and all others wait for it. After the restart the lock is free again, as it was at the
 * checkpoint, and the round is repeated.
 *
 * Fairness: no PE overtakes one that has asked for the lock, so each of the others has at most one
 * turn before it. A PE may be delayed between reading the counter and asking, so one turn in ten
 * may come later than that.
 */
#include <shmem.h>
#include <shmem_ft.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, TURNS = 200 };

static long lock, counter, round_number, overtaken;

static void take_turn(void) {
    shmem_set_lock(&lock);
    shmem_long_p(&counter, shmem_long_g(&counter, 0) + 1, 0);
    shmem_clear_lock(&lock);
}

static void play(int killer) {
    for (int i = 0; i < TURNS; i++) {
        int here = round_number == 2 && i == TURNS / 2;
        if (here && shmem_my_pe() == killer && shmem_ft_algo_init()) {
            shmem_set_lock(&lock);
            raise(SIGKILL);
        }
        take_turn();
    }
}

static void play_fair(void) {
    for (int i = 0; i < TURNS; i++) {
        long asked = shmem_long_g(&counter, 0);
        shmem_set_lock(&lock);
        long begun = shmem_long_g(&counter, 0);
        for (volatile long work = 0; work < 1000; work++)
            ;
        shmem_long_p(&counter, begun + 1, 0);
        shmem_clear_lock(&lock);
        overtaken += begun - asked > shmem_n_pes() - 1;
    }
}

static void saved(void) {
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        shmem_restart_pes(NULL, 0);
        shmem_barrier_all();
    }
}

int main(int argc, char **argv) {
    int killer = argc > 1 ? atoi(argv[1]) : -1;
    shmem_init();
    while (saved(), round_number <= ROUNDS) {
        if (round_number < ROUNDS)
            play(killer);
        else
            play_fair();
        shmem_barrier_all();
        round_number++;
        if (round_number == ROUNDS && shmem_my_pe() == 0) {
            long right = (long)ROUNDS * TURNS * shmem_n_pes();
            if (counter != right) {
                printf("lock_holder: counted %ld, right is %ld\n", counter, right);
                shmem_global_exit(1);
            }
        }
    }
    if (overtaken > TURNS / 10) {
        printf("lock_holder: PE %d was overtaken %ld times\n", shmem_my_pe(), overtaken);
        shmem_global_exit(1);
    }
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        printf("lock_holder: ok\n");
    shmem_finalize();
    return 0;
}
