//! The checkpoint store: the contents of a checkpoint, and how PEs write it and agree on it.
//!
//! ```text
//! quiesce     outstanding transfers complete; barrier Q
//! compare     publish the changes since n; barrier C
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
//! [`coverage`] says which bytes, [`advice`] which of them a plan leaves out, [`readonly`] which
//! are protected apart since nobody writes them, [`private`] how private ones go along, [`objects`]
//! how pointers to the program's code and variables stay right, [`delta`]
//! which of them need no second trip, [`track`] when the kernel is asked what was written,
//! [`protection`] who protects whom, [`grouped`] since when, `raidshmem_codec::stripe` which chunk
//! is where, [`stamp`] how they are sealed, [`phase`] what stands after a death at any moment,
//! [`site`] whose call of the checkpoint is none, [`intent`] whether there is room for a checkpoint at all, [`refusal`] what
//! follows if not. The crate `raidshmem` does it.
//!
//! Invariant: at every moment a complete checkpoint exists that every survivor can identify from
//! the phases alone: slot and snapshot of `n` are untouched until every PE's parity of `n + 1` is
//! complete. The modes with one slot (`single`, `double`) give that up while they write, as in the
//! thesis; a loss in that window that needs the slot is an agreed error.

pub mod advice;
pub mod coverage;
pub mod delta;
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
