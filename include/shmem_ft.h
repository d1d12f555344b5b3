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
 * shmemx_ft_readonly    collective: the program does not write this range of one block of the heap
 *                       until shmemx_ft_writable; a write is SIGSEGV with a line that names it. No
 *                       snapshot of it is kept, since it is one, and its parity is made once. The
 *                       whole tiles of 64 KiB from its first whole page on are kept so, by raid5
 *                       and rs without SHMEM_FT_STORE where a lost PE takes all back. FAILURE: PE 0
 *                       says why it stays as other memory. It cannot be freed or resized
 * shmemx_ft_writable    collective: the same range may be written again. Each PE copies it before,
 *                       if the last checkpoint has it; FAILURE if one has no memory for that
 * shmemx_ft_event       bytes that the program drew by itself, from a clock, as random numbers or
 *                       as input: with SHMEM_FT_ROLLBACK=local a PE that rolls back gets what it
 *                       drew before. Elsewhere it does nothing
 * shmemx_ft_need_checkpoint
 *                       collective: 1 if the next shmem_checkpoint_all saves or reports a loss, 0
 *                       if it would pass without either, because of SHMEM_FT_INTERVAL
 * shmemx_ft_should_stop
 *                       collective: 1 if the job ends with the next checkpoint, because it was
 *                       asked to stop and has SHMEM_FT_STORE
 * shmemx_ft_survives    1 if the job, as its PEs are placed now, survives the loss of one PE, node
 *                       or failure domain, 0 if it would end by it (always before the first
 *                       checkpoint), -1 if there is none of that number. Not collective
 * shmemx_ft_last_error  why the last checkpoint was refused, one line, or NULL; good until the
 *                       thread asks again. A program that answers a refusal by shmem_restart_pes
 *                       goes on without a new checkpoint: further refusals are no failures
 *
 * With SHMEM_FT_ROLLBACK=none nobody goes back, and the others go on without the lost: barriers and
 * collectives complete among those that live, writes to a lost PE do nothing, reads give zeroes.
 *
 * shmemx_ft_get         shmem_getmem that says whether the bytes may be used, and so the typed and
 *                       strided forms
 * shmemx_ft_failed      the members of a team that are lost, in memory from malloc
 * shmemx_ft_get_checkpoint  bytes of a PE as of its last checkpoint, decoded from parity if it is
 *                       lost, and the number of that checkpoint
 * shmemx_ft_put2        shmem_putmem to a PE and then to its shadow, complete at both: one of both
 *                       copies is whole at any time, whoever dies. The two are on different nodes,
 *                       as long as PEs live on several
 * shmemx_ft_shadow      the member of a team that suits as the shadow of member pe: on another node
 *                       if there is one; -1 if the team has no other member
 * shmemx_ft_agree       collective among those that live: the bits that all have, the same on all;
 *                       FAILURE while somebody has not acknowledged a loss (shmem_restart_pes)
 * shmemx_ft_shrink      the same: a team of those that live
 * shmemx_ft_on_fault    calls f with each PE that is lost and its status, by the thread that asked,
 *                       in a later call of it that concerns other PEs; f makes local calls only
 * shmemx_ft_faulted     1 from a loss to the restart that acknowledges it
 */
/* Kinds of loss for shmemx_ft_survives; kinds above the node are those of SHMEM_FT_DOMAINS, from
   SHMEMX_FT_DOMAIN on, in the order of the file; domains are numbered as they first appear. */
#define SHMEMX_FT_PE 0
#define SHMEMX_FT_NODE 1
#define SHMEMX_FT_DOMAIN 2

typedef void (*shmemx_ft_handler_t)(int pe, int status, void *arg);

#ifdef __cplusplus
extern "C" {
#endif

/* Fault tolerance: extensions */
int shmemx_ft_register(void *addr, size_t len);
int shmemx_ft_protect(const char *name, void *ptr, size_t len);
int shmemx_ft_include(void *addr, size_t len);
int shmemx_ft_exclude(void *addr, size_t len);
int shmemx_ft_readonly(void *addr, size_t len);
int shmemx_ft_writable(void *addr, size_t len);
void shmemx_ft_event(void *ptr, size_t len);
const char *shmemx_ft_last_error(void);
uint64_t shmemx_ft_checkpoint_number(void);
int shmemx_ft_need_checkpoint(void);
int shmemx_ft_should_stop(void);
int shmemx_ft_survives(int kind, int id);
int shmemx_ft_get(void *dest, const void *source, size_t nbytes, int pe);
int shmemx_ft_float_get(float *dest, const float *source, size_t nelems, int pe);
int shmemx_ft_double_get(double *dest, const double *source, size_t nelems, int pe);
int shmemx_ft_longdouble_get(long double *dest, const long double *source, size_t nelems, int pe);
int shmemx_ft_char_get(char *dest, const char *source, size_t nelems, int pe);
int shmemx_ft_schar_get(signed char *dest, const signed char *source, size_t nelems, int pe);
int shmemx_ft_short_get(short *dest, const short *source, size_t nelems, int pe);
int shmemx_ft_int_get(int *dest, const int *source, size_t nelems, int pe);
int shmemx_ft_long_get(long *dest, const long *source, size_t nelems, int pe);
int shmemx_ft_longlong_get(long long *dest, const long long *source, size_t nelems, int pe);
int shmemx_ft_uchar_get(unsigned char *dest, const unsigned char *source, size_t nelems, int pe);
int shmemx_ft_ushort_get(unsigned short *dest, const unsigned short *source, size_t nelems, int pe);
int shmemx_ft_uint_get(unsigned int *dest, const unsigned int *source, size_t nelems, int pe);
int shmemx_ft_ulong_get(unsigned long *dest, const unsigned long *source, size_t nelems, int pe);
int shmemx_ft_ulonglong_get(unsigned long long *dest, const unsigned long long *source, size_t nelems, int pe);
int shmemx_ft_int8_get(int8_t *dest, const int8_t *source, size_t nelems, int pe);
int shmemx_ft_int16_get(int16_t *dest, const int16_t *source, size_t nelems, int pe);
int shmemx_ft_int32_get(int32_t *dest, const int32_t *source, size_t nelems, int pe);
int shmemx_ft_int64_get(int64_t *dest, const int64_t *source, size_t nelems, int pe);
int shmemx_ft_uint8_get(uint8_t *dest, const uint8_t *source, size_t nelems, int pe);
int shmemx_ft_uint16_get(uint16_t *dest, const uint16_t *source, size_t nelems, int pe);
int shmemx_ft_uint32_get(uint32_t *dest, const uint32_t *source, size_t nelems, int pe);
int shmemx_ft_uint64_get(uint64_t *dest, const uint64_t *source, size_t nelems, int pe);
int shmemx_ft_size_get(size_t *dest, const size_t *source, size_t nelems, int pe);
int shmemx_ft_ptrdiff_get(ptrdiff_t *dest, const ptrdiff_t *source, size_t nelems, int pe);
int shmemx_ft_float_iget(float *dest, const float *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_double_iget(double *dest, const double *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_longdouble_iget(long double *dest, const long double *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_char_iget(char *dest, const char *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_schar_iget(signed char *dest, const signed char *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_short_iget(short *dest, const short *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_int_iget(int *dest, const int *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_long_iget(long *dest, const long *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_longlong_iget(long long *dest, const long long *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_uchar_iget(unsigned char *dest, const unsigned char *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_ushort_iget(unsigned short *dest, const unsigned short *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_uint_iget(unsigned int *dest, const unsigned int *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_ulong_iget(unsigned long *dest, const unsigned long *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_ulonglong_iget(unsigned long long *dest, const unsigned long long *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_int8_iget(int8_t *dest, const int8_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_int16_iget(int16_t *dest, const int16_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_int32_iget(int32_t *dest, const int32_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_int64_iget(int64_t *dest, const int64_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_uint8_iget(uint8_t *dest, const uint8_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_uint16_iget(uint16_t *dest, const uint16_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_uint32_iget(uint32_t *dest, const uint32_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_uint64_iget(uint64_t *dest, const uint64_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_size_iget(size_t *dest, const size_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_ptrdiff_iget(ptrdiff_t *dest, const ptrdiff_t *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
int shmemx_ft_get_checkpoint(void *dest, const void *source, size_t nbytes, int pe, uint64_t *number);
int shmemx_ft_put2(void *dest, const void *source, size_t nbytes, int pe, int shadow);
int shmemx_ft_shadow(shmem_team_t team, int pe);
int shmemx_ft_agree(shmem_team_t team, int *value);
int shmemx_ft_shrink(shmem_team_t team, shmem_team_t *living);
int shmemx_ft_failed(shmem_team_t team, int **pes, size_t *n);
void shmemx_ft_on_fault(shmemx_ft_handler_t f, void *arg);
int shmemx_ft_faulted(void);

#ifdef __cplusplus
}
#endif

#endif
