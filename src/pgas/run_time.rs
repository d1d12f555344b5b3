//! Variables of the executable that are not the program's: those of a profiler's run-time library,
//! which no checkpoint holds.

#![forbid(unsafe_code)]

use std::ops::Range;

use raidshmem_archive::runtime::{self, RuntimeVariable};
use raidshmem_sys::caller;
use tracing::info;

/// Returns their addresses in this process.
pub(super) fn of_run_time() -> Vec<Range<usize>> {
    let bytes = std::fs::read("/proc/self/exe").unwrap_or_default();
    let bias = caller::bias().unwrap_or_default();
    let range = |RuntimeVariable { name, addresses }: RuntimeVariable| {
        info!("{name} belongs to a run-time library and is in no checkpoint");
        bias.wrapping_add(addresses.start as usize)..bias.wrapping_add(addresses.end as usize)
    };
    runtime::variables(&bytes).into_iter().map(range).collect()
}
