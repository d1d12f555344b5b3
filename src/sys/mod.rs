//! The few system calls the runtime makes, as safe functions with named errors.
//!
//! Invariant: everything above this module is free of raw system calls. What is unsafe here is
//! unsafe because the kernel call is; each block says why it is sound.
//!
//! Left out: anything a well-kept crate already offers as safe code is called where it is needed.

pub mod caller;
pub mod futex;
pub mod machine;
pub mod memory;
pub mod process;
pub mod socket;
