//! Bindings to UCP, the protocol layer of UCX, of version 1.13; newer ones serve them as well.
//!
//! `bindings/` writes them where there is libclang. The build needs none: it compares what is
//! committed with the headers of the machine by a C compiler.
//!
//! Left out: everything the engine in `raidshmem` does not call, and every safe wrapper: those are
//! its business.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all, missing_docs)]
#![allow(unsafe_op_in_unsafe_fn, dead_code)]

include!("bindings.rs");
