//! Atomics of the model, which know the place in the code of each access and can weaken one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::Location;

use loom::sync::atomic as exact;

pub use std::sync::{TryLockError, atomic::Ordering};

pub use loom::hint::spin_loop;
pub use loom::sync::{Mutex, MutexGuard};

/// A place in the code of the library: its file, line and column.
pub type Site = (&'static str, u32, u32);

/// The effect of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Load,
    Store,
    Update,
    Fence,
}

thread_local! {
    static SITES: RefCell<BTreeMap<Site, (Access, Ordering)>> = RefCell::default();
    static WEAKENED: Cell<Option<(Site, Ordering)>> = const { Cell::new(None) };
}

/// Weakens the accesses of this thread's models at a site to that ordering.
pub fn weaken(change: Option<(Site, Ordering)>) {
    WEAKENED.set(change);
}

/// Returns the accesses that this thread's models have made with an ordering.
pub fn sites() -> BTreeMap<Site, (Access, Ordering)> {
    SITES.take()
}

fn order(access: Access, written: Ordering, at: &'static Location<'static>) -> Ordering {
    let site = (at.file(), at.line(), at.column());
    if written != Ordering::Relaxed && at.file().contains("/crates/") {
        SITES.with_borrow_mut(|sites| sites.insert(site, (access, written)));
    }
    match WEAKENED.get() {
        Some((weakened, ordering)) if weakened == site => ordering,
        _ => written,
    }
}

/// Orders accesses; `Relaxed` stands for a fence that is missing.
#[track_caller]
pub fn fence(ordering: Ordering) {
    match order(Access::Fence, ordering, Location::caller()) {
        Ordering::Relaxed => {}
        ordering => exact::fence(ordering),
    }
}

/// Stands for a fence of the compiler that a barrier for all processors completes.
#[track_caller]
pub fn compiler_fence(ordering: Ordering) {
    fence(ordering);
}

macro_rules! atomics {
    ($($name:ident: $value:ty;)+) => {$(
        #[derive(Debug, Default)]
        pub struct $name(exact::$name);

        impl $name {
            pub fn new(value: $value) -> $name {
                $name(exact::$name::new(value))
            }

            pub fn exact(&self) -> &exact::$name {
                &self.0
            }

            pub fn as_ptr(&self) -> *mut $value {
                unreachable!("a model has no addresses")
            }

            #[track_caller]
            pub fn load(&self, ordering: Ordering) -> $value {
                self.0.load(order(Access::Load, ordering, Location::caller()))
            }

            #[track_caller]
            pub fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, order(Access::Store, ordering, Location::caller()));
            }

            #[track_caller]
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                self.0.swap(value, order(Access::Update, ordering, Location::caller()))
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = order(Access::Update, success, Location::caller());
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    )+};
}
macro_rules! counters {
    ($($name:ident: $value:ty;)+) => {$(
        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, by: $value, ordering: Ordering) -> $value {
                self.0.fetch_add(by, order(Access::Update, ordering, Location::caller()))
            }

            #[track_caller]
            pub fn fetch_sub(&self, by: $value, ordering: Ordering) -> $value {
                self.0.fetch_sub(by, order(Access::Update, ordering, Location::caller()))
            }
        }
    )+};
}

atomics! {
    AtomicBool: bool;
    AtomicU8: u8;
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
}
counters! {
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
}
