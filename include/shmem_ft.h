/* raidshmem: checkpoints and restarts. Printed from the tables in src/capi; do not edit. */
#ifndef SHMEM_FT_H
#define SHMEM_FT_H

#include "shmem.h"

/*
 * A program survives the death of its PEs when its loop begins with
 *
 *     if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
 *         shmem_query_fault(&pes, &status, &n);
 *         shmem_restart_pes(pes, n);
 *         shmem_barrier_all();
 *         free(pes), free(status);
 *         continue;
 *     }
 *
 * There is one such call in a program: a substitute begins at the top of main, and the others wait
 * for it in this call, so it must come to the same one.
 *
 * shmem_checkpoint_all  collective: all symmetric data, statics too, as they are now; or FAILURE
 * shmem_query_fault     who died since, and how: two malloc()ed lists of the same length
 * shmem_restart_pes     collective: substitutes take the places of the dead, and the symmetric data
 *                       of all PEs is as at the last checkpoint
 * shmem_ft_algo_init    1 in a PE that was there from the start, 0 in a substitute
 *
 * Between a death and the restart blocking calls return, puts and atomic updates are dropped, gets
 * give zeroes, and tests say that what they wait for is there, so that no loop waits for ever.
 *
 * Threads (SHMEM_THREAD_MULTIPLE): a death may come while any number of threads are in calls. All
 * these calls return; a thread need not know of the death. Checkpoint and restart are for one
 * thread of each PE, while no other thread of it is in a call or touches symmetric memory: join the
 * others first, or hold them at a barrier of their own. It may be any thread. A restart brings back
 * memory, not threads: a substitute starts its own.
 */

/*
 * shmemx_ft_protect     add private memory of this PE, which stays until the end of the job, to its
 *                       checkpoints; a substitute protects the same names with the same lengths
 *                       before shmem_restart_pes, in whatever order, or the job ends with status 3.
 *                       A name that is protected again takes the memory that is given last. What
 *                       was protected after the checkpoint that is gone back to gets the bytes that
 *                       it had then
 * shmemx_ft_register    the same under a name that is made of the place of the call in the program,
 *                       how often it was called there, and len
 * shmemx_ft_exclude     leave symmetric memory (static, or of one block of the heap) out of them,
 *                       the same on every PE, until it is freed
 * shmemx_ft_include     take it in again
 * shmemx_ft_need_checkpoint
 *                       collective: 1 if the next shmem_checkpoint_all saves or reports a loss, 0
 *                       if it would pass without either, because of SHMEM_FT_INTERVAL
 * shmemx_ft_last_error  why the last checkpoint was refused, one line, or NULL; good until the
 *                       thread asks again. A program that answers a refusal by shmem_restart_pes
 *                       goes on without a new checkpoint: further refusals are no failures
 */

#ifdef __cplusplus
extern "C" {
#endif

/* Fault tolerance: extensions */
int shmemx_ft_register(void *addr, size_t len);
int shmemx_ft_protect(const char *name, void *ptr, size_t len);
int shmemx_ft_include(void *addr, size_t len);
int shmemx_ft_exclude(void *addr, size_t len);
const char *shmemx_ft_last_error(void);
uint64_t shmemx_ft_checkpoint_number(void);
int shmemx_ft_need_checkpoint(void);
int shmemx_ft_get(void *dest, const void *source, size_t nbytes, int pe);
int shmemx_ft_faulted(void);

#ifdef __cplusplus
}
#endif

#endif
