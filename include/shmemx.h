/* raidshmem: extensions. Printed from the tables in src/capi; do not edit. */
#ifndef SHMEMX_H
#define SHMEMX_H
#include "shmem.h"
#include "shmem_ft.h"
#endif
