//! The atomics and locks of this crate, which are those of the standard library.
//!
//! The files that import them from here are compiled a second time by `tests/memory_model`, with
//! atomics whose every permitted value is explored.

pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
pub use std::sync::atomic::{Ordering, fence};
pub use std::sync::{Mutex, MutexGuard, TryLockError};
