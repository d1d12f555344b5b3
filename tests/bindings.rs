//! The committed bindings of `ucx-sys` and `rdma-sys`: a header with another layout is noticed when
//! they are built, and they are what `bindings/` prints, where there is libclang.

#[path = "support/skip.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use support::skip;

include!("../bindings/layout.rs");

/// Enough of those of `ucx-sys/build.rs`; UCX of this machine may be newer than the bindings.
const GROW: &[&str] = &["ucp_ep_params", "ucp_params", "ucp_worker_params", "ucp_mem_map_params"];
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// True if the C compiler takes the program.
fn compiles(name: &str, program: &str) -> bool {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bindings-{name}.c"));
    std::fs::write(&file, program).expect("a folder for programs");
    let mut compiler = Command::new("cc");
    let output = compiler.arg("-fsyntax-only").arg(&file).output().expect("cc runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || errors.contains("differs: "), "{errors}");
    output.status.success()
}

#[test]
fn another_layout_or_value_is_noticed() {
    let text = include_str!("../ucx-sys/src/bindings.rs");
    if !Path::new("/usr/include/ucp/api/ucp.h").exists() {
        return skip("ucx", "its headers are not installed");
    }
    let header = "ucp/api/ucp.h";
    assert!(compiles("right", &program(header, &[text], GROW)));
    for (right, wrong) in [
        ("offset_of!(ucp_params, features) - 8", "offset_of!(ucp_params, features) - 16"),
        ("size_of::<ucp_err_handler>() - 16", "size_of::<ucp_err_handler>() - 24"),
        ("UCS_INPROGRESS: ucs_status_t = 1;", "UCS_INPROGRESS: ucs_status_t = 2;"),
        (
            "type ucs_status_t = ::std::os::raw::c_schar",
            "type ucs_status_t = ::std::os::raw::c_int",
        ),
    ] {
        let other = text.replace(right, wrong);
        assert_ne!(other, text, "{right}");
        assert!(!compiles("wrong", &program(header, &[&other], GROW)), "{wrong}");
    }
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
