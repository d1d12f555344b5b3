//! The committed bindings of `ucx-sys` and `rdma-sys`: they match the layouts and values in this
//! machine's headers, a mismatch is detected, and, if libclang is installed, `bindings/` prints
//! exactly them.
//!
//! Builds compare nothing: they need no header, and the library loaded at run time may be a
//! different version.

#[path = "support/skip.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use support::skip;

include!("../bindings/layout.rs");

/// Structures with a mask that says which of their fields are set.
const UCX_GROW: &[&str] = &[
    "ucp_am_handler_param",
    "ucp_am_recv_param",
    "ucp_ep_params",
    "ucp_mem_map_params",
    "ucp_params",
    "ucp_request_param_t",
    "ucp_worker_params",
];
/// A structure that may grow: the caller passes its size, or the library fills only the old part.
const VERBS_GROW: &[&str] = &["ibv_port_attr"];
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the C compiler's errors for the program, with the headers of this package; empty if it
/// compiles.
fn complaints(name: &str, package: &str, program: &str) -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bindings-{name}.c"));
    std::fs::write(&file, program).expect("a folder for programs");
    let mut compiler = Command::new("cc");
    compiler.args(["-fsyntax-only", "-w"]).arg(&file);
    compiler.args(says("pkg-config", &["--cflags", package]).split_whitespace());
    let output = compiler.output().expect("cc runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), errors.is_empty(), "{errors}");
    errors
}

/// Checks that the bindings match a package's headers, and that each of these changes is detected.
fn compare(package: &str, header: &str, texts: &[&str], grow: &[&str], changes: &[[&str; 2]]) {
    if says("pkg-config", &["--modversion", package]).is_empty() {
        return skip(&format!("{package}-headers"), "they are not installed");
    }
    assert_eq!(complaints(&format!("{package}-right"), package, &program(header, texts, grow)), "");
    for [right, wrong] in changes {
        let others: Vec<String> = texts.iter().map(|text| text.replace(right, wrong)).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        assert_ne!(others, texts, "{right}");
        let program = program(header, &others, grow);
        let complaints = complaints(&format!("{package}-wrong"), package, &program);
        assert!(complaints.contains("differs: "), "{wrong}\n{complaints}");
    }
}

#[test]
fn layouts_and_values_of_ucx_are_those_of_its_headers() {
    let text = include_str!("../ucx-sys/src/bindings.rs");
    compare(
        "ucx",
        "ucp/api/ucp.h",
        &[text],
        UCX_GROW,
        &[
            ["offset_of!(ucp_params, features) - 8", "offset_of!(ucp_params, features) - 16"],
            ["size_of::<ucp_err_handler>() - 16", "size_of::<ucp_err_handler>() - 24"],
            ["UCS_INPROGRESS: ucs_status_t = 1;", "UCS_INPROGRESS: ucs_status_t = 2;"],
            [
                "type ucs_status_t = ::std::os::raw::c_schar",
                "type ucs_status_t = ::std::os::raw::c_int",
            ],
        ],
    );
}

#[test]
fn layouts_and_values_of_libibverbs_are_those_of_its_headers() {
    let texts =
        [include_str!("../rdma-sys/src/bindings.rs"), include_str!("../rdma-sys/src/types.rs")];
    compare(
        "libibverbs",
        "infiniband/verbs.h",
        &texts,
        VERBS_GROW,
        &[
            ["offset_of!(ibv_qp, qp_num) - 52", "offset_of!(ibv_qp, qp_num) - 56"],
            ["size_of::<ibv_wc>() - 48", "size_of::<ibv_wc>() - 56"],
            ["IBV_WR_RDMA_READ: Type = 4;", "IBV_WR_RDMA_READ: Type = 5;"],
        ],
    );
}

fn says(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn committed_bindings_are_what_the_headers_say() {
    let source = include_str!("../bindings/src/main.rs");
    let (_, made) = source.split_once("const MADE_FROM: &str = \"").expect("the versions");
    let made = made.split('"').next().unwrap_or_default();
    let here = says("pkg-config", &["--modversion", "ucx", "libibverbs"]);
    let is_libclang = |line: &str| {
        let name = line.trim().strip_prefix("libclang").unwrap_or_default();
        name.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit()).starts_with(".so")
    };
    if std::env::var_os("LIBCLANG_PATH").is_none()
        && !says("/sbin/ldconfig", &["-p"]).lines().any(is_libclang)
    {
        return skip("libclang", "bindgen finds none");
    }
    if here.split_whitespace().collect::<Vec<_>>().join(" ") != made {
        return skip("headers-of-bindings", &format!("the bindings are from {made}"));
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bindings");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--manifest-path", "bindings/Cargo.toml"]);
    cargo.args(["--", "--check"]).current_dir(ROOT).env("CARGO_TARGET_DIR", target);
    assert!(
        cargo.status().expect("cargo runs").success(),
        "run bindings/ and commit what it wrote"
    );
}
