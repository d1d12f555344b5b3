//! Variables of the executable that are not the program's: those of a profiler's run-time library,
//! which no checkpoint holds.

#![forbid(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;

use raidshmem_archive::runtime::{self, RuntimeVariable};
use raidshmem_sys::caller;

const EXECUTABLE: &str = "/proc/self/exe";
/// The names of those that were found, for people.
static NAMES: OnceLock<String> = OnceLock::new();

/// Returns their addresses in this process.
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

/// A line that names them, if there are any.
pub(super) fn line() -> Option<String> {
    let names = NAMES.get().filter(|names| !names.is_empty())?;
    Some(format!("variables of a profiler are left to each process: {names}"))
}
