//! Finds the system's UCX through pkg-config, and compares the committed bindings with its headers.
//!
//! Left out: a bundled UCX. Without one on the system the build ends with what to install.

include!("../bindings/layout.rs");

/// They say by a mask which of their fields are set.
const GROW: &[&str] = &[
    "ucp_am_handler_param",
    "ucp_am_recv_param",
    "ucp_ep_params",
    "ucp_mem_map_params",
    "ucp_params",
    "ucp_request_param_t",
    "ucp_worker_params",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bindings.rs");
    println!("cargo::rerun-if-changed=../bindings/layout.rs");
    let ucx = pkg_config::Config::new().atleast_version("1.13").probe("ucx").unwrap_or_else(|e| {
        eprintln!("{e}");
        panic!("UCX 1.13 or newer is needed (Debian: apt-get install libucx-dev)")
    });
    check("ucp/api/ucp.h", &ucx.include_paths, &[include_str!("src/bindings.rs")], GROW);
}
