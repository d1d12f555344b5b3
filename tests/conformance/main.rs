//! Conformance: every function of the interface is called, in every type, on one to five PEs, and
//! gives the result that the same steps have in sequence.
//!
//! The programs are in `c/`; [`generate`] writes their per-type parts: lists of types taken from
//! the specification's symbols, and trampolines that record the functions called. At the end no
//! function may be left out.
#![cfg(target_arch = "x86_64")] // the trampolines are machine code

#[path = "../support/mod.rs"]
mod support;

mod generate;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::Job;

const PROGRAMS: &[&str] = &["rma", "amo", "p2p", "coll", "rest"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance")
}

/// Builds a program with the trampolines before the library.
fn build(name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/c");
    let target = folder().join(name);
    let output = Command::new(env!("CARGO_BIN_EXE_oshcc"))
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-sign-compare", "-I"])
        .args([&folder(), &PathBuf::from("-I"), &sources, &PathBuf::from("-o")])
        .args([&target, &sources.join(name).with_extension("c"), &sources.join("called.c")])
        .arg(folder().join("trampolines.s"))
        .output()
        .expect("oshcc runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    target
}

#[test]
fn every_function_is_called_and_right() {
    let symbols = generate::symbols();
    generate::write(&folder(), &symbols);
    let notes = folder().join("called");
    std::fs::write(&notes, [0u8; generate::NOTES_LEN]).expect("a file for notes");
    let job = |pes: usize, program: &Path, args: &[&str]| {
        let notes = notes.to_str().expect("plain names");
        Job::new(pes).env("CONFORMANCE_CALLED", notes).program(program, args).run()
    };
    for name in PROGRAMS {
        let program = build(name);
        for pes in 1..=5 {
            let outcome = job(pes, &program, &[]);
            outcome.status(0);
            outcome.check(outcome.out == format!("{name}: ok\n"), "it is right");
        }
    }
    job(2, &folder().join("rest"), &["7"]).status(7);
    // Collectives by nodes: one PE on each, more on some, all on one node. Then the other
    // algorithms.
    let by = |way: &str, pes: usize, args: &[&str]| {
        let job = Job::new(pes).args(args).env("SHMEM_FT_COLLECTIVES", way);
        let job = job.env("CONFORMANCE_CALLED", notes.to_str().expect("plain names"));
        let outcome = job.program(&folder().join("coll"), &[]).run();
        outcome.status(0);
        outcome.check(outcome.out == "coll: ok\n", "it is right this way too");
    };
    for (pes, nodes) in [(2, "2"), (4, "4"), (5, "3"), (5, "2"), (3, "1"), (7, "5")] {
        by("nodes", pes, &["--nodes", nodes]);
    }
    for way in ["doubling", "halving"] {
        for pes in [2, 5] {
            by(way, pes, &[]);
        }
    }
    // The algorithms between nodes that do not share memory.
    let ways = ["auto", "nodes", "doubling", "halving"];
    for way in ways.into_iter().filter(|_| support::has_ucx_too()) {
        for (pes, nodes) in [(4, "4"), (5, "3")] {
            by(way, pes, &["--nodes", nodes, "--fabric", "ucx"]);
        }
    }

    let called = std::fs::read(&notes).expect("the notes");
    let never: Vec<&str> =
        symbols.iter().zip(&called).filter(|(_, called)| **called == 0).map(|(s, _)| *s).collect();
    support::note(&format!(
        "conformance: {} of {} functions were called",
        symbols.len() - never.len(),
        symbols.len()
    ));
    assert!(never.is_empty(), "never called: {never:?}");
}
