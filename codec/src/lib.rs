//! Parity codec of raidshmem: bytes in, bytes out.
//!
//! A group of `g` members keeps snapshots of its memory. [`stripe`] maps each chunk of a snapshot
//! to the parity chunks that protect it and to the members that hold them; [`code`] computes,
//! updates and inverts the parity of one stripe; [`crc`] detects bytes that have changed since they
//! were written; [`kernel`] is the inner loop of all coding.
//!
//! Invariants: nothing here performs I/O, starts threads or knows what a process is; the only
//! global state is the choice of a kernel, made once. Wrong shapes return a variant of [`Error`]
//! before any output byte is written.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! error                                      errors
//! gf  matrix                                 the Galois field; matrices over it
//! kernel                                     inner loops, one per instruction set
//! crc  code                                  checksums; the parity of a stripe
//! stripe                                     the layout of stripes: data and parity chunks
//! ```
//!
//! Left out: deciding *which* shards are lost (the caller passes them), storing anything, and
//! finding a shard that is present but wrong (the purpose of the checksums).
//!
//! ```
//! use raidshmem_codec::{code::Code, stripe::{Layout, Scheme}};
//!
//! let layout = Layout::new(Scheme::Rs { parity: 2 }, 5)?;
//! let stripe = &layout.stripes()[0];
//! let code = Code::new(stripe.data.len(), stripe.parity.len())?;
//!
//! let data: [&[u8]; 3] = [b"abcd", b"efgh", b"ijkl"];
//! let (mut p, mut q) = ([0; 4], [0; 4]);
//! code.encode(&data, &mut [&mut p, &mut q])?;
//!
//! // The members holding shards 0 and 2 are gone; shard 1 and both parities are left.
//! let plan = code.plan(&[true, false, true, false, false], 0)?;
//! assert_eq!(plan.sources(), [1, 3, 4]);
//! let mut back = [0; 4];
//! plan.apply(&[data[1], &p, &q], &mut back)?;
//! assert_eq!(&back, b"abcd");
//! # Ok::<(), raidshmem_codec::Error>(())
//! ```
#![deny(unsafe_code)] // allowed in the files of `kernel` for one instruction set, nowhere else

pub mod code;
pub mod crc;
pub mod error;
mod gf;
pub mod kernel;
mod matrix;
pub mod stripe;

pub use error::Error;

/// Compiles and runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
