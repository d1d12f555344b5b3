//! Bindings to libfabric, version 1.17; newer versions work, too.
//!
//! Nothing is linked: [`load`] opens the machine's library and looks up every function once. A
//! build needs neither the library nor its headers. The types are written by hand, and
//! `tests/bindings.rs` compares them with the headers by means of a C compiler. Most of the
//! library's interface is not exported: its objects begin with tables of functions.
//!
//! Left out: functions that the engine in `raidshmem` does not call, and all safe wrappers, which
//! are part of the engine.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all, missing_docs)]
#![allow(unsafe_op_in_unsafe_fn, dead_code, clippy::undocumented_unsafe_blocks)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

mod types;

pub use types::*;

/// The name of the library's file.
const LIBRARY: &str = "libfabric.so.1";
/// The version of the interface that is used here.
pub const VERSION: u32 = 1 << 16 | 17;

/// The functions that the library exports.
pub struct Libfabric {
    _library: libloading::Library,
    pub fi_version: unsafe extern "C" fn() -> u32,
    pub fi_getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const fi_info,
        *mut *mut fi_info,
    ) -> c_int,
    pub fi_freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub fi_dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub fi_fabric:
        unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
    pub fi_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl std::fmt::Debug for Libfabric {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(LIBRARY)
    }
}

/// Returns the functions of the library, which the first call opens and which stays open.
///
/// # Errors
/// The loader's message, which names the missing file or function; or a message that the library is
/// too old.
pub fn load() -> Result<&'static Libfabric, &'static str> {
    static LIBFABRIC: OnceLock<Result<Libfabric, String>> = OnceLock::new();
    LIBFABRIC.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Libfabric, String> {
    let found = find().map_err(|error| error.to_string())?;
    // SAFETY: it has no parameters.
    let version = unsafe { (found.fi_version)() };
    if version < VERSION {
        return Err(format!("{LIBRARY} is of version {}.{}", version >> 16, version & 0xffff));
    }
    Ok(found)
}

fn find() -> Result<Libfabric, libloading::Error> {
    // SAFETY: a library with this versioned name has the interface of the bindings; its
    // initialisers may run in any process.
    unsafe {
        let library = libloading::Library::new(LIBRARY)?;
        Ok(Libfabric {
            fi_version: *library.get(b"fi_version\0")?,
            fi_getinfo: *library.get(b"fi_getinfo\0")?,
            fi_freeinfo: *library.get(b"fi_freeinfo\0")?,
            fi_dupinfo: *library.get(b"fi_dupinfo\0")?,
            fi_fabric: *library.get(b"fi_fabric\0")?,
            fi_strerror: *library.get(b"fi_strerror\0")?,
            _library: library,
        })
    }
}
