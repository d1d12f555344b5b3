#ifndef TALLY_H
#define TALLY_H

/* Initialises the library: on all PEs, after shmem_init and before the first checkpoint. A
 * substitute calls it too. */
void tally_init(void);

/* Adds a value to the total. */
void tally_add(long value);

/* Returns the sum of the values of all PEs. */
long tally_total(void);

/* Returns the number of values that this PE added. */
long tally_calls(void);

#endif
