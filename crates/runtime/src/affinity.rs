//! The processors of a program's threads, OpenMP's or those of pthreads, kept across a restart.
//!
//! Every checkpoint holds a table of masks, thread by thread in the order of creation. A substitute
//! gives its threads the masks of the table: at its restart those that exist, and at a later
//! checkpoint those that begin afterwards. `SHMEM_FT_AFFINITY=0` disables all of this. Source:
//! Saini, affinity-aware restart.
//!
//! Invariants: the table is written inside a checkpoint call, and read after a restart; a thread is
//! given a mask once. The masks of survivors are left alone, because the program has set them.
//!
//! Left out: pages, which are placed by the binding of a PE, or by [`crate::numa`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use raidshmem_core::machine::show;
use raidshmem_core::placement::threads::{THREADS, ThreadMask, WORDS};
use raidshmem_core::quantity::Incarnation;
use raidshmem_sys::threads::{Threads, mask, set_mask};
use raidshmem_sys::{lock, process};
use tracing::info;

use crate::pgas::{self, Name, World};

/// A mask in the table that checkpoints hold.
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

/// The affinity state of a process.
struct Affinity {
    threads: Threads,
    /// The processors on which this PE may run, as of its start.
    binding: Vec<usize>,
    /// Masks that threads have not got yet, by their place in the table.
    owed: Vec<(usize, Vec<usize>)>,
}

static AFFINITY: OnceLock<Mutex<Affinity>> = OnceLock::new();

/// Makes the table part of every checkpoint of this PE, unless that is switched off.
pub fn register() {
    let world = pgas::world();
    if !world.settings().affinity
        || world.loss_response().is_local_rollback()
        || world.store.protection().is_none()
    {
        return;
    }
    let (threads, binding) = (Threads::new(), process::usable());
    AFFINITY.get_or_init(|| Mutex::new(Affinity { threads, binding, owed: Vec::new() }));
    let table = (&raw const TABLE).cast_mut().cast::<u8>();
    // SAFETY: a static of atomics, which are written through shared references: it is there and
    // writable until the process ends, and any bytes that a checkpoint of it holds are values of
    // it.
    unsafe { world.memory.register(Name::Library("threads"), table as usize, size_of_val(&TABLE)) };
}

/// Gives, before a checkpoint, masks to threads that began since the restart, and notes all masks.
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

/// Takes a substitute's masks from the table, which a restart has just restored.
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
