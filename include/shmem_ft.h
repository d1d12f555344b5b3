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
 * A program needs exactly one such call: a substitute starts at the top of main, and the other PEs
 * wait for it in this call, so it must arrive at the same one.
 *
 * shmem_checkpoint_all  collective: saves all symmetric data, including statics; FAILURE after a
 *                       loss
 * shmem_query_fault     lists the PEs lost since, and the cause of each loss: two lists of the same
 *                       length, from malloc
 * shmem_restart_pes     collective: substitutes replace the lost PEs, and the symmetric data of all
 *                       PEs is restored from the last checkpoint
 * shmem_ft_algo_init    0 in a substitute, else 1
 *
 * Between a loss and the restart, blocking calls return, puts and atomic updates are dropped, gets
 * return zeroes, and tests report success, so that no loop hangs.
 *
 * Threads (SHMEM_THREAD_MULTIPLE): a PE may die while any number of threads are in calls; all of
 * them return, and a thread need not know of the loss. In each PE one thread, no matter which,
 * calls checkpoint and restart, while no other thread is in a call or touches symmetric memory:
 * join the others first, or hold them at a barrier of their own. A restart restores memory, not
 * threads: a substitute starts its own.
 */

/*
 * shmemx_ft_protect     adds private memory of this PE, which must exist until the end of the job,
 *                       to its checkpoints. Before shmem_restart_pes a substitute protects the same
 *                       names with the same lengths, in any order; otherwise the job ends with
 *                       status 3. A name that is protected again refers to the memory given last.
 *                       A region protected after the checkpoint that is restored gets the bytes
 *                       that it had when it was protected
 * shmemx_ft_register    like shmemx_ft_protect, under a name formed from the place of the call in
 *                       the program, the number of calls made there, and len
 * shmemx_ft_exclude     excludes symmetric memory, static or in one block of the heap, from
 *                       checkpoints until it is freed; alike on every PE
 * shmemx_ft_include     includes it again
 * shmemx_ft_readonly    collective: declares that the program does not write this range of one
 *                       block of the heap until shmemx_ft_writable; a write raises SIGSEGV, and a
 *                       line names the range. No snapshot of it is kept, since live memory serves
 *                       as one, and its parity is computed once. Only whole tiles of 64 KiB from
 *                       its first whole page on are treated this way. It requires raid5 or rs,
 *                       global rollback and no SHMEM_FT_STORE. FAILURE if nothing was changed: PE 0
 *                       prints the reason. The block cannot be freed or resized
 * shmemx_ft_writable    collective: makes the range writable again. If the last checkpoint covers
 *                       it, each PE copies it first; FAILURE if one of them lacks the memory
 * shmemx_ft_event       records bytes that come from outside, such as a clock reading, random
 *                       numbers or input: with SHMEM_FT_ROLLBACK=local a PE that rolls back gets
 *                       the recorded bytes. Otherwise it does nothing
 * shmemx_ft_protected   1 if a loss rolls the job back to that checkpoint or a later one, else 0. A
 *                       checkpoint whose parity is computed in the background (SHMEM_FT_BACKGROUND)
 *                       protects some time after its call has returned. Not collective
 * shmemx_ft_flush       waits until the last checkpoint protects; FAILURE if a PE was lost before
 *                       that, which the next shmem_checkpoint_all reports. Not collective
 * shmemx_ft_need_checkpoint
 *                       collective: 1 if the next shmem_checkpoint_all will save or report a loss,
 *                       0 if SHMEM_FT_INTERVAL makes it do neither
 * shmemx_ft_should_stop
 *                       collective: 1 if the job was asked to stop and will end with the next
 *                       checkpoint (SHMEM_FT_STORE)
 * shmemx_ft_survives    1 if the job, as its PEs are placed now, survives the loss of one PE, node
 *                       or failure domain; 0 if it would end (always before the first checkpoint);
 *                       -1 if there is no such PE, node or domain. Not collective
 * shmemx_ft_last_error  the reason why the last checkpoint was refused, in one line, or NULL; valid
 *                       until the thread asks again. A program that answers a refusal with
 *                       shmem_restart_pes continues without a new checkpoint: further refusals are
 *                       not failures
 *
 * With SHMEM_FT_ROLLBACK=none no PE rolls back, and the living PEs continue without the lost ones:
 * they complete barriers and collectives, writes to a lost PE do nothing, reads return zeroes.
 *
 * shmemx_ft_get         shmem_getmem that reports whether the bytes are valid; likewise the typed
 *                       and strided forms
 * shmemx_ft_failed      the lost members of a team, in memory from malloc
 * shmemx_ft_get_checkpoint  bytes of a PE as of its last checkpoint, decoded from parity if the PE
 *                       is lost, and the number of that checkpoint
 * shmemx_ft_put2        shmem_putmem to a PE and then to its shadow, complete on each: at any time
 *                       one of the two copies is whole, whichever PE dies. The two PEs are on
 *                       different nodes, as long as PEs live on several
 * shmemx_ft_shadow      the member of a team that suits best as the shadow of member pe: on another
 *                       node if possible; -1 if the team has no other member
 * shmemx_ft_agree       collective among the living: the bits that are set on all of them, with
 *                       equal results; FAILURE until all have acknowledged every loss
 *                       (shmem_restart_pes)
 * shmemx_ft_shrink      collective among the living: a team of them
 * shmemx_ft_on_fault    calls f with each lost PE and its status, in the thread that asked for it,
 *                       from within a later call that concerns other PEs; f makes only local calls
 * shmemx_ft_faulted     1 from a loss until the restart that acknowledges it
 *
 * A checkpoint on disk (SHMEM_FT_STORE) can be read by a program with any number of PEs, which
 * distributes its arrays anew. These calls are local: each PE reads for itself.
 *
 * shmemx_ft_set_open    opens set 7 of a folder (`DIR@7`), or the newest whose files are there or
 *                       can be decoded (`DIR`); its number for the calls below, or -1. With
 *                       SHMEM_FT_STORE_LAYOUT=local the folders of all nodes are in DIR
 * shmemx_ft_set_list    the name of object `index`, valid until the set is closed, the number of
 *                       PEs that have it, and its bytes on PE 0; FAILURE behind the last
 * shmemx_ft_set_read    copies bytes of an object of a PE, with bytes verified, and decoded from
 *                       parity if they are damaged or missing. FAILURE if that is impossible, or
 *                       there is no such object, PE or byte: dest is then undefined.
 *                       Names: static:NAME is a variable, heap:NAME the block that the static
 *                       pointer NAME points to (heap:NAME[1] in an array of pointers), heap:3 the
 *                       fourth block by address, private:NAME memory of shmemx_ft_protect. NAME
 *                       alone is the first found of private, heap and static
 * shmemx_ft_set_close   closes a set
 * shmemx_ft_set_error   the reason of the last failure of these calls in this thread, in one line,
 *                       or NULL; valid until its next failure
 */
/* Kinds of loss for shmemx_ft_survives. Kinds above the node are those of SHMEM_FT_DOMAINS, from
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
int shmemx_ft_protected(uint64_t number);
int shmemx_ft_flush(void);
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

/* Fault tolerance: checkpoints on disk */
int shmemx_ft_set_open(const char *dir);
int shmemx_ft_set_list(int set, size_t index, const char **name, int *npes, size_t *nbytes);
int shmemx_ft_set_read(int set, const char *object, int pe, size_t offset, void *dest, size_t nbytes);
void shmemx_ft_set_close(int set);
const char *shmemx_ft_set_error(void);

#ifdef __cplusplus
}
#endif

#endif
