//! Bindings to UCP, the protocol layer of UCX, version 1.13; newer versions work, too.
//!
//! Nothing is linked: [`load`] opens the machine's library and looks up every function once. A
//! build needs neither the library nor its headers. `bindings/` generates the bindings if libclang
//! is available, and `tests/bindings.rs` compares them with the headers by means of a C compiler.
//!
//! Left out: functions that the engine in `raidshmem` does not call, and all safe wrappers, which
//! are part of the engine.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all, missing_docs)]
#![allow(unsafe_op_in_unsafe_fn, dead_code, clippy::undocumented_unsafe_blocks)]

use std::sync::OnceLock;

include!("bindings.rs");

/// The name of the library's file. It loads libucs, whose functions are looked up through it.
const LIBRARY: &str = "libucp.so.0";

impl std::fmt::Debug for Ucp {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(LIBRARY)
    }
}

/// Returns the functions of the library, which the first call opens and which stays open.
///
/// # Errors
/// The loader's message, which names the missing file or function; or a message that the library is
/// too old.
pub fn load() -> Result<&'static Ucp, &'static str> {
    static UCP: OnceLock<Result<Ucp, String>> = OnceLock::new();
    UCP.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Ucp, String> {
    // SAFETY: a library with this versioned name has the interface of the bindings; its
    // initialisers may run in any process.
    let ucp = unsafe { Ucp::new(LIBRARY) }.map_err(|error| error.to_string())?;
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: valid pointers to three numbers.
    unsafe { ucp.ucp_get_version(&mut major, &mut minor, &mut release) };
    if (major, minor) < (UCP_API_MAJOR, UCP_API_MINOR) {
        return Err(format!("{LIBRARY} is of version {major}.{minor}"));
    }
    Ok(ucp)
}
