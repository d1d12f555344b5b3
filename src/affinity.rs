//! Keeps the processors of a program's threads over a restart: OpenMP's, or those of pthreads.
//!
//! Every checkpoint holds a table of masks, thread by thread in the order of their creation. A
//! substitute gives its threads the masks that the table says: those that there are at its restart
//! at once, and those that are begun later at a checkpoint after that. `SHMEM_FT_AFFINITY=0` leaves
//! all of it out. Source: Saini, affinity-aware restart.
//!
//! Invariants: the table is written inside of a checkpoint call, and read after a restart; a thread
//! is given a mask once. The masks of survivors are left alone, as they are what the program made
//! of them.
//!
//! Left out: pages, which go with the binding of a PE.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use raidshmem_core::machine::show;
use raidshmem_core::placement::threads::{THREADS, ThreadMask, WORDS};
use raidshmem_core::quantity::Incarnation;
use raidshmem_sys::threads::{Threads, mask, set_mask};
use raidshmem_sys::{lock, process};
use tracing::info;

use crate::pgas::{self, Name, World};

/// A mask that checkpoints keep.
struct Slot {
    kind: AtomicU64,
    bits: [AtomicU64; WORDS],
}

impl Slot {
    const fn empty() -> Slot {
        Slot { kind: AtomicU64::new(0), bits: [const { AtomicU64::new(0) }; WORDS] }
    }

    fn put(&self, mask: ThreadMask) {
        self.kind.store(mask.kind, Ordering::Relaxed);
        let bits = self.bits.iter().zip(mask.bits);
        bits.for_each(|(slot, word)| slot.store(word, Ordering::Relaxed));
    }

    fn get(&self) -> ThreadMask {
        let bits = std::array::from_fn(|at| self.bits[at].load(Ordering::Relaxed));
        ThreadMask { kind: self.kind.load(Ordering::Relaxed), bits }
    }
}

static TABLE: [Slot; THREADS] = [const { Slot::empty() }; THREADS];

/// What one process knows.
struct Affinity {
    threads: Threads,
    /// Where this PE may run, as it was started.
    binding: Vec<usize>,
    /// Masks that threads are still to get, by their place in the table.
    owed: Vec<(usize, Vec<usize>)>,
}

static AFFINITY: OnceLock<Mutex<Affinity>> = OnceLock::new();

/// Makes the table part of every checkpoint of this PE, unless that is switched off.
pub fn register() {
    let world = pgas::world();
    if !world.settings().affinity || world.is_alone() || world.store.protection().is_none() {
        return;
    }
    let (threads, binding) = (Threads::new(), process::usable());
    AFFINITY.get_or_init(|| Mutex::new(Affinity { threads, binding, owed: Vec::new() }));
    let table = (&raw const TABLE).cast_mut().cast::<u8>();
    // SAFETY: a static of atomics, which are written through shared references: it is there and
    // writable until the process ends, and any bytes of a checkpoint of it are values of it.
    unsafe { world.memory.register(Name::Library("threads"), table as usize, size_of_val(&TABLE)) };
}

/// Before a checkpoint: gives what is owed to threads that began since, and notes all masks.
pub fn note() {
    let Some(affinity) = AFFINITY.get() else { return };
    let mut affinity = lock(affinity);
    let threads = affinity.threads.look();
    affinity.give(&threads);
    for (at, slot) in TABLE.iter().enumerate() {
        let owed = affinity.owed.iter().any(|(other, _)| *other == at);
        match threads.get(at) {
            Some(&thread) => slot.put(ThreadMask::of(&mask(thread), &affinity.binding)),
            None if owed => {}
            None => slot.put(ThreadMask::default()),
        }
    }
}

/// After a restart has put the table back: a substitute takes the masks from it.
pub fn restored(world: &World) {
    let Some(affinity) = AFFINITY.get() else { return };
    if world.members.incarnation() == Incarnation::FIRST {
        return;
    }
    let mut affinity = lock(affinity);
    let kept = |(at, slot): (usize, &Slot)| Some((at, slot.get().on(&affinity.binding)?));
    let owed = TABLE.iter().enumerate().filter_map(kept).collect();
    affinity.owed = owed;
    let threads = affinity.threads.look();
    affinity.give(&threads);
}

impl Affinity {
    fn give(&mut self, threads: &[i32]) {
        self.owed.retain(|(at, cpus)| {
            let Some(&thread) = threads.get(*at) else { return true };
            if mask(thread) != *cpus {
                let done = if set_mask(thread, cpus) { "is" } else { "cannot be" };
                let cpus = show(cpus);
                info!("thread {at} of the program {done} bound to processors {cpus} again");
            }
            false
        });
    }
}
