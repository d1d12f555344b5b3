//! Bindings to UCP, the protocol layer of UCX, as the system's headers say they are.
//!
//! Left out: everything the engine in `raidshmem` does not call, and every safe wrapper: those are
//! its business.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all, missing_docs)]
#![allow(unsafe_op_in_unsafe_fn, dead_code)]

include!(concat!(env!("OUT_DIR"), "/ucp.rs"));
