/*
 * point.h: shared by the programs here. Each is our own version of one that Bari et al. evaluate,
 * with as many safe points, and prints a sum that does not depend on the number of lost PEs.
 *
 * By default a program does its work once. With -DSAVE it does it ROUNDS times, and saves a
 * checkpoint before each.
 */
#ifndef POINT_H
#define POINT_H

#include "../../tests/c/restart.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PES
#define PES 16
#endif
#ifndef ROUNDS
#define ROUNDS 6
#endif

#ifdef SAVE
static int round_;
static void saved(void) {
    shmem_barrier_all(); /* to time the checkpoint, not the wait for the last PE */
    while (shmem_checkpoint_all() != SHMEM_FT_SUCCESS)
        restart();
}
#define EACH_ROUND for (; saved(), round_ < ROUNDS; round_++)
#else
#define EACH_ROUND
#endif

#endif
