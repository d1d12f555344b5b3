//! libFuzzer's way into [`raidshmem_fuzz::archive`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raidshmem_fuzz::archive(bytes));
