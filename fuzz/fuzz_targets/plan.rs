//! libFuzzer's way into [`raidshmem_fuzz::plan`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raidshmem_fuzz::plan(bytes));
