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
//! [`coverage`] names the bytes, [`advice`] those that a plan leaves out, [`readonly`] those that
//! are protected apart because no PE writes them, [`private`] private memory, [`objects`] the load
//! addresses that keep pointers to the program's code and variables valid, [`delta`] the bytes
//! that need no second pass, [`track`] the times at which the kernel reports written pages,
//! [`protection`] the parity groups, [`grouped`] the checkpoint from which they hold,
//! `raidshmem_codec::stripe` the place of each chunk, [`stamp`] its seal, [`phase`] the checkpoint
//! that stands after a death at any moment, [`site`] the calls that make no checkpoint, [`intent`]
//! the memory for one, and [`refusal`] the consequence if there is too little. The crate
//! `raidshmem` carries this out.
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
