//! The checkpoint store: the contents of a checkpoint, and how PEs write it and agree on it.
//!
//! ```text
//! quiesce     outstanding transfers done; barrier Q
//! compare     publish the tiles changed since n; barrier C
//! encode      each parity owner pulls the chunks it covers from its peers' LIVE memory into the
//!             free parity slot, a checksum and stamp per tile
//! barrier A   entered once the own parity of n+1 is complete
//! copy        live -> snapshot; the slot of n+1 becomes the agreed one
//! barrier B   left once all snapshots are n+1
//! ```
//!
//! With a second snapshot (`SHMEM_FT_SNAPSHOTS`) the encode step writes that snapshot, too. A PE
//! that enters barrier A has then written its part of it, and the copy step only seals it.
//!
//! Contents: [`coverage`] selects the bytes to save, [`advice`] excludes what a plan calls dead,
//! [`readonly`] protects read-only ranges separately, [`private`] covers registered private memory,
//! and [`objects`] keeps pointers to the program's code and variables valid. Changes: [`delta`]
//! skips unchanged tiles, and [`track`] decides when to ask the kernel for written pages. Parity:
//! [`protection`] forms the groups, [`grouped`] records the groups of each checkpoint,
//! `raidshmem_codec::stripe` places the chunks, and [`stamp`] seals the tiles. Agreement:
//! [`phase`] finds the checkpoint that stands after a death, [`site`] the PEs that call from
//! diverged sites, `footprint` and [`intent`] check that memory suffices, and [`refusal`] handles a
//! shortage. The crate `raidshmem` moves the bytes.
//!
//! Invariant: at every moment a complete checkpoint exists that every survivor can identify from
//! the phases alone: slot and snapshot of `n` are untouched until every PE's parity of `n + 1` is
//! complete. The modes with one slot (`single`, `double`) give that up while they write, as in the
//! thesis; a loss in that window that needs the slot is an agreed error.

pub mod advice;
pub mod coverage;
pub mod delta;
mod footprint;
pub mod grouped;
pub mod inherited;
pub mod intent;
pub mod objects;
pub mod phase;
pub mod private;
pub mod protection;
pub mod readonly;
pub mod refusal;
pub mod site;
pub mod stamp;
pub mod track;
