//! Parity codec of raidshmem: bytes in, bytes out.
//!
//! A group of `g` members keeps snapshots of its memory. [`stripe`] says which chunk of whose
//! snapshot is protected by which parity chunk and where that parity lives; [`code`] computes,
//! updates and inverts the parity of one stripe; [`crc`] tells whether bytes are still the ones
//! that were written; [`kernel`] is the inner loop all of the coding goes through.
//!
//! Invariants: nothing here performs I/O, starts threads or knows what a process is; the only
//! global state is the choice of a kernel, made once. Wrong shapes are answered with a variant of
//! [`Error`] before any output byte is written.
//!
//! Layers, each importing only from those above it or to the left of it:
//!
//! ```text
//! error                                      what is refused
//! gf  matrix                                 the field, and matrices over it
//! kernel                                     the loops, by what the processor has
//! crc  code                                  checksums; the parity of a stripe
//! stripe                                     where the parity of what lies
//! ```
//!
//! Left out: deciding *which* shards are lost (the codec is told), storing anything, and
//! finding a shard that is present but wrong (that is what the checksums are for).
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

/// Keeps the example of the README compiling and true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
