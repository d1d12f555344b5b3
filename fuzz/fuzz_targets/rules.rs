//! libFuzzer's way into [`raidshmem_fuzz::rules`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raidshmem_fuzz::rules(bytes));
