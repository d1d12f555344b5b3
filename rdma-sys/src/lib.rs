//! rdma-sys 0.3.0 with committed bindings, loaded at run time: see README.md.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals)]
#![allow(clippy::all, missing_docs, unsafe_op_in_unsafe_fn)]

use libc::*;
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
include!("bindings/x86_64.rs");
#[cfg(target_arch = "aarch64")]
include!("bindings/aarch64.rs");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("bindings of libibverbs are committed for x86-64 and aarch64 (`bindings/`)");

mod types;
mod verbs;

pub use self::types::*;
pub use self::verbs::*;

/// The name of the library's file.
const LIBRARY: &str = "libibverbs.so.1";

impl std::fmt::Debug for Ibverbs {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(LIBRARY)
    }
}

/// Returns the functions of the library, which the first call opens and which stays open.
///
/// # Errors
/// The loader's message, which names the missing file or function.
pub fn load() -> Result<&'static Ibverbs, &'static str> {
    static IBVERBS: OnceLock<Result<Ibverbs, String>> = OnceLock::new();
    IBVERBS.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Ibverbs, String> {
    // SAFETY: a library with this versioned name has the interface of the bindings; its
    // initialisers may run in any process.
    unsafe { Ibverbs::new(LIBRARY) }.map_err(|error| error.to_string())
}
