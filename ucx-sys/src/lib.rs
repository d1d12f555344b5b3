//! Bindings to UCP, the protocol layer of UCX, of version 1.13; newer ones serve them as well.
//!
//! Nothing is linked: [`load`] opens the library of the machine and finds every function once. A
//! build needs neither it nor its headers. `bindings/` writes the bindings where there is libclang,
//! and `tests/bindings.rs` compares them with the headers by a C compiler.
//!
//! Left out: everything the engine in `raidshmem` does not call, and every safe wrapper: those are
//! its business.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all, missing_docs)]
#![allow(unsafe_op_in_unsafe_fn, dead_code, clippy::undocumented_unsafe_blocks)]

use std::sync::OnceLock;

include!("bindings.rs");

/// What the loader looks for. It brings libucs along, whose functions are found through it.
const LIBRARY: &str = "libucp.so.0";

impl std::fmt::Debug for Ucp {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(LIBRARY)
    }
}

/// The functions of the library, which the first call opens and nobody closes.
///
/// # Errors
/// What the loader says, which names the file or the function that is missing; or that the library
/// is too old.
pub fn load() -> Result<&'static Ucp, &'static str> {
    static UCP: OnceLock<Result<Ucp, String>> = OnceLock::new();
    UCP.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Ucp, String> {
    // SAFETY: a library of this name has the interface of the bindings, by its version; what it does
    // when it is loaded is made to be done in any process.
    let ucp = unsafe { Ucp::new(LIBRARY) }.map_err(|error| error.to_string())?;
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: places for three numbers.
    unsafe { ucp.ucp_get_version(&mut major, &mut minor, &mut release) };
    if (major, minor) < (UCP_API_MAJOR, UCP_API_MINOR) {
        return Err(format!("{LIBRARY} is of version {major}.{minor}"));
    }
    Ok(ucp)
}
