//! The committed bindings of `ucx-sys`, `rdma-sys` and `ofi-sys` have the layouts and values of
//! this machine's headers, and a deviation is detected; if libclang is installed, those of the
//! first two are also compared with the output of `bindings/`. Bindings for another processor are
//! checked with Debian's cross compiler and that processor's C library; the headers of UCX,
//! libibverbs and libfabric are equal on all processors.
//!
//! Builds compare nothing: they need no header, and the library loaded at run time may be a
//! different version.

#[path = "support/skip.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use support::{partly, skip};

include!("../bindings/layout.rs");

/// Structures with a mask of the fields that are set.
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
const VERBS_X86_64: &str = include_str!("../rdma-sys/src/bindings/x86_64.rs");
const VERBS_AARCH64: &str = include_str!("../rdma-sys/src/bindings/aarch64.rs");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A processor with bindings, by its name in Rust and GNU.
#[derive(Clone, Copy)]
struct Processor(&'static str);

impl Processor {
    const ALL: [Self; 2] = [Self("x86_64"), Self("aarch64")];

    fn compiler(self) -> String {
        match self.0 == std::env::consts::ARCH {
            true => "cc".to_string(),
            false => format!("{}-linux-gnu-gcc", self.0),
        }
    }

    /// Returns true if a compiler and a C library for this processor are installed; its checks are
    /// skipped otherwise.
    fn is_here(self) -> bool {
        let look = ["-E", "-include", "pthread.h", "-x", "c", "/dev/null"];
        let here = !says(&self.compiler(), &look).is_empty();
        if !here {
            partly(&format!("{}-compiler", self.0), "its bindings are not compared");
        }
        here
    }

    /// Returns compiler options for the headers of both packages, which a cross compiler does not
    /// search by default.
    fn headers(self) -> &'static [&'static str] {
        if self.0 == std::env::consts::ARCH { &[] } else { &["-idirafter", "/usr/include"] }
    }
}

/// Compiles the program with the headers of this package, and returns the compiler's errors; empty
/// if it succeeds.
fn complaints(processor: Processor, name: &str, package: &str, program: &str) -> String {
    let name = format!("bindings-{}-{name}.c", processor.0);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, program).expect("a folder for programs");
    let mut compiler = Command::new(processor.compiler());
    compiler.args(["-fsyntax-only", "-w"]).args(processor.headers()).arg(&file);
    compiler.args(says("pkg-config", &["--cflags", package]).split_whitespace());
    let output = compiler.output().expect("the compiler runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), errors.is_empty(), "{errors}");
    errors
}

/// One comparison: the bindings for a processor with a package's headers.
struct Bindings<'a> {
    processor: Processor,
    package: &'a str,
    header: &'a str,
    texts: &'a [&'a str],
    grow: &'a [&'a str],
}

impl Bindings<'_> {
    fn complaints(&self, name: &str, texts: &[&str]) -> String {
        let program = program(self.header, texts, self.grow);
        let name = format!("{}-{name}", self.package);
        complaints(self.processor, &name, self.package, &program)
    }

    /// Checks that the bindings match the headers, and that each of these changes is detected.
    fn compare(&self, changes: &[[&str; 2]]) {
        assert_eq!(self.complaints("right", self.texts), "");
        for [right, wrong] in changes {
            let others: Vec<_> = self.texts.iter().map(|text| text.replace(right, wrong)).collect();
            let others: Vec<&str> = others.iter().map(String::as_str).collect();
            assert_ne!(others, self.texts, "{right}");
            let complaints = self.complaints("wrong", &others);
            assert!(complaints.contains("differs: "), "{wrong}\n{complaints}");
        }
    }
}

/// Returns true if the package's headers are installed; the test is skipped otherwise.
fn has_headers(package: &str) -> bool {
    let there = !says("pkg-config", &["--modversion", package]).is_empty();
    if !there {
        skip(&format!("{package}-headers"), "they are not installed");
    }
    there
}

#[test]
fn layouts_and_values_of_ucx_are_those_of_its_headers() {
    if !has_headers("ucx") {
        return;
    }
    let texts = &[include_str!("../ucx-sys/src/bindings.rs")];
    let (package, header, grow) = ("ucx", "ucp/api/ucp.h", UCX_GROW);
    for processor in Processor::ALL.into_iter().filter(|processor| processor.is_here()) {
        Bindings { processor, package, header, texts, grow }.compare(&[
            ["offset_of!(ucp_params, features) - 8", "offset_of!(ucp_params, features) - 16"],
            ["size_of::<ucp_err_handler>() - 16", "size_of::<ucp_err_handler>() - 24"],
            ["UCS_INPROGRESS: ucs_status_t = 1;", "UCS_INPROGRESS: ucs_status_t = 2;"],
            [
                "type ucs_status_t = ::std::os::raw::c_schar",
                "type ucs_status_t = ::std::os::raw::c_int",
            ],
        ]);
    }
}

#[test]
fn layouts_and_values_of_libibverbs_are_those_of_its_headers() {
    if !has_headers("libibverbs") {
        return;
    }
    let types = include_str!("../rdma-sys/src/types.rs");
    let (package, header, grow) = ("libibverbs", "infiniband/verbs.h", VERBS_GROW);
    for processor in Processor::ALL.into_iter().filter(|processor| processor.is_here()) {
        let (own, other) = match processor.0 {
            "aarch64" => (VERBS_AARCH64, VERBS_X86_64),
            _ => (VERBS_X86_64, VERBS_AARCH64),
        };
        let texts = &[own, types];
        let bindings = Bindings { processor, package, header, texts, grow };
        bindings.compare(&[
            ["offset_of!(ibv_qp, qp_num) - 52", "offset_of!(ibv_qp, qp_num) - 56"],
            ["size_of::<ibv_wc>() - 48", "size_of::<ibv_wc>() - 56"],
            ["IBV_WR_RDMA_READ: Type = 4;", "IBV_WR_RDMA_READ: Type = 5;"],
        ]);
        // The C library's mutex has another size on that processor.
        let complaints = bindings.complaints("other", &[other, types]);
        assert!(complaints.contains("differs: sizeof(struct ibv_context) == "), "{complaints}");
    }
}

/// Structures of which the library passes pointers, so that they may be cut, and grow.
const OFI_GROW: &[&str] = &[
    "fi_ops",
    "fi_ep_attr",
    "fi_domain_attr",
    "fi_ops_fabric",
    "fid_fabric",
    "fi_ops_av",
    "fi_ops_cq",
    "fi_cq_err_entry",
    "fi_ops_mr",
    "fi_ops_domain",
    "fi_ops_cm",
    "fi_ops_msg",
    "fi_ops_rma",
    "fid_ep",
];

#[test]
fn layouts_and_values_of_libfabric_are_those_of_its_headers() {
    if !has_headers("libfabric") {
        return;
    }
    let texts = &[include_str!("../ofi-sys/src/types.rs")];
    let (package, grow) = ("libfabric", OFI_GROW);
    let header = "rdma/fi_rma.h>\n#include <rdma/fi_cm.h";
    for processor in Processor::ALL.into_iter().filter(|processor| processor.is_here()) {
        Bindings { processor, package, header, texts, grow }.compare(&[
            ["offset_of!(fi_info, tx_attr) - 72", "offset_of!(fi_info, tx_attr) - 80"],
            ["size_of::<fi_cq_attr>() - 40", "size_of::<fi_cq_attr>() - 48"],
            ["FI_EP_RDM: c_uint = 3;", "FI_EP_RDM: c_uint = 2;"],
        ]);
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
    // Each processor's compiler comes with the headers of its C library.
    if !Processor::ALL.into_iter().all(Processor::is_here) {
        return;
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
