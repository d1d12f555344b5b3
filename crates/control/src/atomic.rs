//! The atomics of this crate, which are those of the standard library.
//!
//! The files that import them from here are compiled a second time by `tests/memory_model`, with
//! atomics whose every permitted value is explored.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicU64, Ordering, fence};
