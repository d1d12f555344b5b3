//! Checkpoints in files: writing them from memory, and filling memory from them.
//!
//! The format of the files is defined in [`raidshmem_archive`], which also schedules the
//! checkpoints that are written (`schedule`).
//!
//! Invariants: nothing is read through a link, or from a file of another user; a folder has the
//! name of a set only while it is whole; a failure here is an error with text, and never a panic.
//!
//! Left out: the decisions when to write (`raidshmem-launch`) and when to load (the start of a PE).
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! step       injection points: a process may be killed before any step that changes files
//! claim      snapshot pin: notifies a PE that a checkpoint in its memory is being written
//! spill      the tiles that the PE copies because of a pin
//! source     reading the store of a PE without its help
//! variables  addresses of the static variables of a program
//! files      opening the files of a set
//! sets       the folders of sets: listing, creating, deleting
//! held       contents of this host's disk, if each node has its own
//! examine    a set with all of its folders, and the state of each file
//! input      the file of a PE, and the memory it restores
//! fill       restoring a part of the store from a file
//! rebuilt    restoring a file that another build of the program wrote
//! load       restoring the memory of a PE from its file
//! output     files written from a queue
//! write      writing the files of the PEs of a node
//! decode     reading of a set, decoding what is missing
//! reader     the objects of a set by name
//! extract    an object as a file of NumPy
//! copy       a copy of a set that refers to no other
//! repair     making damaged and missing files again
//! answer     the output of `oshinfo store` for a folder
//! made       sets for tests
//! ```

#![forbid(unsafe_code)]
// Modules link to their private items.
#![allow(rustdoc::private_intra_doc_links)]

pub mod answer;
pub mod claim;
mod copy;
mod decode;
pub mod examine;
mod extract;
pub mod files;
mod fill;
pub mod held;
pub mod input;
pub mod load;
#[cfg(test)]
mod made;
mod output;
pub mod reader;
mod rebuilt;
pub mod repair;
pub mod sets;
mod source;
pub mod spill;
pub mod step;
pub mod variables;
pub mod write;

use raidshmem_core::layout::BASE;
use raidshmem_core::layout::Layout;

/// Returns the address of the heap, which is equal in every process.
fn heap_at(layout: &Layout) -> u64 {
    (BASE + layout.heap) as u64
}
