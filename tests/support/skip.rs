//! Notices that a test does not run here, or only in part, for `.ci/sums` to count.
#![allow(dead_code, unused_macros)]

use std::io::Write;

/// Ends a test that lacks what each of these functions looks for: `needs!(long, has_ucx)`.
macro_rules! needs {
    ($($what:ident),+) => {$(
        if !crate::support::$what() {
            return;
        }
    )+};
}

/// Notes that this test does not run, since the machine lacks `need`, one of those of `.ci/sums`.
pub fn skip(need: &str, why: &str) {
    without("SKIPPED", need, why);
}

/// Notes that this test runs only in part, since the machine lacks `need`.
pub fn partly(need: &str, why: &str) {
    without("PARTLY", need, why);
}

fn without(what: &str, need: &str, why: &str) {
    let thread = std::thread::current();
    let line = format!("{what}: {}: {need}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// True if UCX can be loaded here. Otherwise this test does not run.
pub fn has_ucx() -> bool {
    ucx(skip)
}

/// True if UCX can be loaded here. Otherwise this test runs without the parts that need UCX.
pub fn has_ucx_too() -> bool {
    ucx(partly)
}

fn ucx(without: fn(&str, &str)) -> bool {
    let loaded = raidshmem_engines::load(raidshmem_core::settings::Fabric::Ucx);
    loaded.map_err(|why| without("ucx", &why.to_string())).is_ok()
}

/// True if the clang that the adviser needs is installed. Otherwise this test does not run.
pub fn has_clang() -> bool {
    let found = raidshmem::advise::clang(None);
    found.map_err(|_| skip("clang", "none of version 19")).is_ok()
}

/// Returns the fabrics between hosts that this machine supports without special hardware; a test
/// runs without the others.
pub fn networks() -> Vec<&'static str> {
    [("ucx", has_ucx_too()), ("ofi", has_ofi_too())]
        .into_iter()
        .filter_map(|(fabric, here)| here.then_some(fabric))
        .collect()
}

/// True if libfabric can be loaded here. Otherwise this test does not run.
pub fn has_ofi() -> bool {
    ofi(skip)
}

/// True if libfabric can be loaded here. Otherwise this test runs without the parts that need it.
pub fn has_ofi_too() -> bool {
    ofi(partly)
}

fn ofi(without: fn(&str, &str)) -> bool {
    let loaded = raidshmem_engines::load(raidshmem_core::settings::Fabric::Ofi);
    loaded.map_err(|why| without("libfabric", &why.to_string())).is_ok()
}

/// True if this machine has that program. Otherwise this test runs without it.
pub fn has_tool(tool: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&folders).any(|folder| folder.join(tool).is_file());
    if !there {
        partly(tool, "it is not installed");
    }
    there
}

/// Returns MiB of free memory in pieces of a huge page, once the kernel has dropped its file cache
/// and compacted the rest, which it does for root.
fn unbroken() -> usize {
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
    let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
    let info = std::fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let pieces = |line: &str| -> usize {
        let counts = line.split_whitespace().skip(4).enumerate();
        counts.skip(9).map(|(order, count)| count.parse().unwrap_or(0) << order).sum()
    };
    info.lines().map(pieces).sum::<usize>() * 4 / 1024
}

/// True if enough huge pages are free. Memory fragmented into small pieces has none for any
/// process: then this test does not run.
pub fn huge_pages_are_free() -> bool {
    const ENOUGH: usize = 1024;
    let there = unbroken();
    if there < ENOUGH {
        skip("unbroken-memory", &format!("{there} MiB are free in large pieces, not {ENOUGH}"));
    }
    there >= ENOUGH
}

/// True if all tests were requested (`make test-all`).
pub fn all_asked_for() -> bool {
    std::env::var_os("RAIDSHMEM_ALL").is_some()
}

/// True if this long test should run: all tests were requested. Otherwise notes that it is left
/// out.
pub fn long() -> bool {
    if !all_asked_for() {
        skip("all", "it is long; make test-all runs it");
    }
    all_asked_for()
}
