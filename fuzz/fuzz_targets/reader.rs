//! libFuzzer's way into [`raidshmem_fuzz::reader`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raidshmem_fuzz::reader(bytes));
