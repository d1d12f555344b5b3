//! rdma-sys 0.3.0 with committed bindings: see README.md.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals)]
#![allow(clippy::all, missing_docs, unsafe_op_in_unsafe_fn)]

use libc::*;

include!("bindings.rs");

mod types;
mod verbs;

pub use self::types::*;
pub use self::verbs::*;
