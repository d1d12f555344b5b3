/* raidshmem: the former location of shmemx.h. Printed from the tables in src/capi; do not edit. */
#ifndef MPP_SHMEMX_H
#define MPP_SHMEMX_H
#include "../shmemx.h"
#endif
