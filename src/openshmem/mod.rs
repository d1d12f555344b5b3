//! The OpenSHMEM model: the semantics of the specification's calls, independent of any language.
//!
//! The C interface (`capi`) and the safe Rust API (`shmem`) stand on it side by side. A file
//! imports only from those above it (`tests/tidy/` rules out cycles):
//!
//! ```text
//! check  bits  number                argument checks; element types as bits and as numbers
//! memory                             addresses, transfers, words, atomics
//! order  signal  wait  wait_set      fence and quiet, signals, waits
//! team  context                      the tables of handles
//! group                              PEs that act together, and their synchronization
//! split  lock                        splitting teams; queue locks
//! collective                         data movement, reductions, scans
//! ```
//!
//! A misuse prints one line and ends the job (`check.rs`). No call waits for a dead PE: between a
//! death and the restart blocking calls return, writes are dropped and reads return zeroes.
//!
//! The communication partners of each step come from `raidshmem_core::schedule`, which is pure.
//!
//! Left out: names, types and handles of C (`capi`); handles that the borrow checker understands
//! (`shmem`); the symmetric heap (`pgas`).

pub mod bits;
pub mod check;
pub mod collective;
pub mod context;
pub mod group;
pub mod lock;
pub mod memory;
pub mod number;
pub mod order;
pub mod signal;
pub mod split;
pub mod team;
pub mod wait;
pub mod wait_set;

use raidshmem_runtime::checkpoint::prefault;
use raidshmem_runtime::pgas::boot::Frontend;
use raidshmem_runtime::{affinity, fault_tolerance, numa, pgas};

use crate::version::own_build;

/// Starts the library: the world, and the tables that checkpoints keep. Returns the thread level
/// provided.
pub fn start(requested: i32) -> i32 {
    let frontend =
        Frontend { build: own_build(), sources: concat!(env!("CARGO_MANIFEST_DIR"), "/src") };
    let provided = pgas::init(requested, frontend, fault_tolerance::recover_at_end);
    prefault::begin(pgas::world());
    team::register();
    context::register();
    affinity::register();
    numa::register();
    provided
}
