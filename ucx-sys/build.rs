//! Finds the system's UCX through pkg-config and makes bindings to the part of UCP that is used.
//!
//! Left out: a bundled UCX. Without one on the system the build ends with what to install.

use std::path::PathBuf;

const FUNCTIONS: &[&str] = &[
    "ucp_config_read",
    "ucp_config_release",
    "ucp_init_version",
    "ucp_cleanup",
    "ucp_get_api_version",
    "ucp_worker_create",
    "ucp_worker_destroy",
    "ucp_worker_get_address",
    "ucp_worker_release_address",
    "ucp_worker_get_efd",
    "ucp_worker_arm",
    "ucp_worker_progress",
    "ucp_worker_signal",
    "ucp_worker_flush_nbx",
    "ucp_worker_set_am_recv_handler",
    "ucp_ep_create",
    "ucp_ep_close_nbx",
    "ucp_ep_flush_nbx",
    "ucp_ep_rkey_unpack",
    "ucp_rkey_destroy",
    "ucp_rkey_pack",
    "ucp_rkey_buffer_release",
    "ucp_mem_map",
    "ucp_mem_unmap",
    "ucp_put_nbx",
    "ucp_get_nbx",
    "ucp_am_send_nbx",
    "ucp_request_check_status",
    "ucp_request_free",
    "ucs_status_string",
];

fn main() {
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-changed=build.rs");
    let ucx = pkg_config::Config::new().atleast_version("1.13").probe("ucx").unwrap_or_else(|e| {
        eprintln!("{e}");
        panic!("UCX 1.13 or newer is needed (Debian: apt-get install libucx-dev)")
    });
    let includes = ucx.include_paths.iter().map(|path| format!("-I{}", path.display()));
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(includes)
        .allowlist_type("ucp_(op|ep|am|worker|mem_map|err|feature|params|cb|send_am)_?.*")
        .allowlist_type("ucs_status_t")
        .allowlist_var("UCP_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .rust_target(bindgen::RustTarget::stable(85, 0).expect("a released Rust"));
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo")).join("ucp.rs");
    let bindings = builder.generate().expect("libclang reads UCX's headers");
    bindings.write_to_file(out).expect("cargo's folder can be written");
}
