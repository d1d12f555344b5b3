//! Variables of the executable that belong to a profiler's run-time library instead of the program;
//! no checkpoint holds them.

#![forbid(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;

use raidshmem_archive::runtime::{self, RuntimeVariable};
use raidshmem_sys::caller;

const EXECUTABLE: &str = "/proc/self/exe";
/// The names of the variables found, for messages.
static NAMES: OnceLock<String> = OnceLock::new();

/// Returns the addresses of these variables in this process.
pub(super) fn of_run_time() -> Vec<Range<usize>> {
    if !File::open(EXECUTABLE).is_ok_and(runtime::may_be_in) {
        return Vec::new();
    }
    let found = runtime::variables(&std::fs::read(EXECUTABLE).unwrap_or_default());
    let _ = NAMES.set(runtime::names(&found));
    let bias = caller::bias().unwrap_or_default();
    let range = |RuntimeVariable { addresses, .. }: RuntimeVariable| {
        bias.wrapping_add(addresses.start as usize)..bias.wrapping_add(addresses.end as usize)
    };
    found.into_iter().map(range).collect()
}

/// Returns a message that names these variables, if there are any.
pub(super) fn line() -> Option<String> {
    let names = NAMES.get().filter(|names| !names.is_empty())?;
    Some(format!("variables of a profiler are left to each process: {names}"))
}
