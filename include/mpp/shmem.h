/* raidshmem: the former location of shmem.h. Printed from the tables in src/capi; do not edit. */
#ifndef MPP_SHMEM_H
#define MPP_SHMEM_H
#include "../shmem.h"
#endif
