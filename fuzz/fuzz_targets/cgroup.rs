//! libFuzzer's way into [`raidshmem_fuzz::cgroup`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raidshmem_fuzz::cgroup(bytes));
