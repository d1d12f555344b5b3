/*
 * hash: a hash table over all PEs, by atomic operations, and a journal behind a lock.
 *
 *     hash [INSERTS STEPS WORK]    insertions per PE and step; steps, each with a checkpoint;
 *                                  work per key before its insertion
 *
 * A key's hash determines its PE and its first slot. A PE claims a slot by a compare-and-swap of
 * its key, and counts by an addition; if it finds another key there, it tries the next slot. After
 * a step each PE appends a note to a journal on PE 0, one at a time under the lock.
 *
 * Checked: each key is present once, with as many insertions as all PEs made, and the journal has
 * one note per PE and step. The slot of a key depends on timing; the checksum does not.
 */
#include "survive.h"

enum { SLOTS = 1 << 12, KEYS = 3 << 9, NOTES = 1 << 12 }; /* slots per PE, keys per PE */

static long inserts = 1500, steps = 6, work = 1;
static volatile uint64_t worked;
static long done;               /* steps */
static uint64_t *keys, *counts; /* SLOTS of each; a key of zero is a free slot */
static long lock, notes;        /* number of notes, on PE 0 */
static uint64_t *journal;       /* on PE 0 */

static uint64_t drawn(long step, int pe, long nth) {
    uint64_t place = ((uint64_t)step << 40) + ((uint64_t)pe << 28) + (uint64_t)nth;
    return 1 + mix(place) % ((uint64_t)KEYS * (uint64_t)shmem_n_pes());
}

static int home_of(uint64_t key) {
    return (int)(mix(key) % (uint64_t)shmem_n_pes());
}

static uint64_t slot_of(uint64_t key) {
    return mix(key + 0x1234567) % SLOTS;
}

static void insert(uint64_t key) {
    int home = home_of(key);
    uint64_t on = key;
    for (long i = 0; i < work; i++)
        on = mix(on + 1);
    worked = on;
    for (uint64_t tried = 0; tried < SLOTS; tried++) {
        uint64_t slot = (slot_of(key) + tried) % SLOTS;
        uint64_t there = shmem_uint64_atomic_fetch(&keys[slot], home);
        if (there == 0)
            there = shmem_uint64_atomic_compare_swap(&keys[slot], 0, key, home);
        if (there == 0 || there == key) {
            shmem_uint64_atomic_add(&counts[slot], 1, home);
            return;
        }
    }
    fprintf(stderr, "hash: PE %d is full\n", home);
    shmem_global_exit(1);
}

static void note(void) {
    shmem_set_lock(&lock);
    long at = shmem_long_g(&notes, 0);
    if (at >= 0 && at < NOTES)
        shmem_uint64_p(&journal[at], ((uint64_t)done << 32) + (uint64_t)shmem_my_pe(), 0);
    shmem_long_p(&notes, at + 1, 0);
    shmem_clear_lock(&lock);
}

static void step(void) {
    for (long i = 0; i < inserts; i++)
        insert(drawn(done, shmem_my_pe(), i));
    note();
    shmem_barrier_all();
    done++;
}

/* Counts errors in this PE's slots; `expected` counts the insertions of each key. */
static uint64_t check_slots(const uint32_t *expected, uint64_t *checksum, uint64_t *there) {
    uint64_t wrong = 0;
    static unsigned char seen[KEYS * 64 + 1];
    for (long slot = 0; slot < SLOTS; slot++) {
        uint64_t key = keys[slot];
        wrong += key == 0 && counts[slot] != 0;
        if (key == 0)
            continue;
        wrong += home_of(key) != shmem_my_pe() || seen[key] || counts[slot] != expected[key];
        seen[key] = 1;
        *checksum += part(key, counts[slot]);
        *there += counts[slot];
    }
    return wrong;
}

static uint64_t check_journal(void) {
    static unsigned char seen[NOTES];
    uint64_t wrong = notes != steps * shmem_n_pes();
    for (long at = 0; !wrong && at < notes; at++) {
        uint64_t place = (journal[at] >> 32) * (uint64_t)shmem_n_pes() + (journal[at] & 0xffff);
        wrong += place >= (uint64_t)notes || seen[place];
        if (!wrong)
            seen[place] = 1;
    }
    return wrong;
}

static uint64_t wrong, checksum;
static int checked;

static void check(void) {
    size_t all = (size_t)KEYS * (size_t)shmem_n_pes();
    uint32_t *expected = calloc(all + 1, sizeof *expected);
    uint64_t sum = 0, there = 0, bad = !expected;
    if (expected) {
        for (long step = 0; step < steps; step++)
            for (int pe = 0; pe < shmem_n_pes(); pe++)
                for (long i = 0; i < inserts; i++)
                    expected[drawn(step, pe, i)]++;
        bad = check_slots(expected, &sum, &there);
    }
    if (shmem_my_pe() == 0)
        bad += check_journal();
    free(expected);
    bad += sum_of_all(there) != (uint64_t)(inserts * steps) * (uint64_t)shmem_n_pes();
    checksum = sum_of_all(sum);
    wrong = sum_of_all(bad);
    checked = 1;
}

int main(int argc, char **argv) {
    shmem_init();
    inserts = argc > 1 ? atol(argv[1]) : inserts;
    steps = argc > 2 ? atol(argv[2]) : steps;
    work = argc > 3 ? atol(argv[3]) : work;
    if (shmem_n_pes() > 64 || inserts < 0 || steps < 0 || steps * shmem_n_pes() > NOTES) {
        if (shmem_my_pe() == 0)
            fprintf(stderr, "hash: at most 64 PEs, and %d PEs times steps\n", NOTES);
        shmem_global_exit(2);
    }
    while (saved(), !checked) {
        if (!keys) {
            journal = symmetric(NOTES * sizeof *journal);
            counts = symmetric(SLOTS * sizeof *counts);
            keys = symmetric(SLOTS * sizeof *keys);
        } else if (done < steps)
            step();
        else
            check();
    }
    return verdict("hash", wrong, checksum);
}
