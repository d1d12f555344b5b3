//! The C programs under AddressSanitizer and UndefinedBehaviorSanitizer, with deaths.
//!
//! Programs are built by `oshcc -fsanitize=address,undefined` and run against the unmodified
//! library (`make sanitize`). The sanitizers see every access of the program itself, its stack,
//! heap and static variables, and the library's copies from and to its private buffers by `memcpy`
//! and the like; they also report leaks at exit. A separate test checks that the sanitizers work.
//!
//! They do not see, because the library is not instrumented (that takes a nightly toolchain): 1, 2,
//! 4 and 8 bytes that it copies as words; and accesses outside of a block of the symmetric heap,
//! which lies in memory that AddressSanitizer does not know as a heap.
//!
//! The fixed address of that memory is outside of the sanitizer's own; statics keep their gaps, as
//! the same bytes are mapped in the same place, and a checkpoint reads them through a second
//! mapping, without gaps.

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Job, Outcome, jacobi};

const FLAGS: &[&str] = &[
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

/// A mistake of each kind that must be detected, chosen by the first argument.
const MISTAKES: &str = r#"
#include <shmem.h>
#include <stdlib.h>
#include <string.h>
static char before[64], target[4096], after[64];
int main(int argc, char **argv) {
    volatile int past = 64;
    shmem_init();
    char *volatile heap = malloc(64); /* volatile: the compiler must not see it */
    memset(heap, argc, 64);
    switch (argv[1][0]) {
    case 'h': heap[past] = 1; break;                               /* heap */
    case 's': { char *volatile at = after; at[past] = before[0]; break; } /* static */
    case 'p': shmem_putmem(target, heap, 64 + 8, 0); break;        /* read by the library */
    case 'g': shmem_getmem(heap, target, 64 + 8, 0); break;        /* written by the library */
    case 'u': past += 0x7fffffff; break;                           /* signed overflow */
    case 'l': heap = NULL; break;                                  /* leak */
    case 'n': shmem_putmem(target, heap, 64, 0); break;            /* none */
    }
    free(heap);
    shmem_finalize();
    return 0;
}
"#;

/// Builds a program with the sanitizers.
fn sanitized(name: &str, source: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitize");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let target = folder.join(name);
    let mut oshcc = Command::new(env!("CARGO_BIN_EXE_oshcc"));
    let output = oshcc.args(FLAGS).arg("-o").args([&target, source]).output().expect("oshcc runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "oshcc {}: {errors}", source.display());
    target
}

fn example(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    sanitized(name, &source.with_extension("c"))
}

/// Fails the test if a sanitizer reported anything.
#[track_caller]
fn clean(outcome: &Outcome) -> &Outcome {
    for word in ["Sanitizer", "runtime error"] {
        outcome.check(!outcome.err.contains(word), "a sanitizer complains");
    }
    outcome.status(0)
}

#[test]
fn mistakes_of_a_program_are_detected() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes.c");
    std::fs::write(&source, MISTAKES).expect("a file below the target folder");
    let program = sanitized("mistakes", &source);
    let run = |mistake| Job::new(1).program(&program, &[mistake]).run();
    clean(&run("n"));
    for (mistake, words) in [
        ("h", "heap-buffer-overflow"),
        ("s", "global-buffer-overflow"),
        ("p", "heap-buffer-overflow"),
        ("g", "heap-buffer-overflow"),
        ("u", "signed integer overflow"),
        ("l", "detected memory leaks"),
    ] {
        let outcome = run(mistake);
        outcome.says(words);
        outcome.check(outcome.status != 0, &format!("{mistake}: a failure was expected"));
    }
}

#[test]
fn examples_are_clean_whatever_dies() {
    let (hello, count, relax) = (example("hello"), example("count"), example("jacobi"));
    clean(&Job::new(2).program(&hello, &[]).run());
    clean(&Job::new(4).program(&count, &[]).run());
    for mode in ["single", "double", "raid4", "raid5", "rs"] {
        let job = Job::new(4).mode(mode).kill(&["1@3"]).program(&count, &[]);
        clean(&job.run()).says("PE 1 was killed by SIGKILL");
    }
    for mode in ["raid5", "rs"] {
        let job = Job::new(4).mode(mode).args(&["--nodes", "4"]).kill_node(&["2@5"]);
        let outcome = job.program(&relax, jacobi::TINY).run();
        clean(&outcome).says("node 2 was lost").right_sum(jacobi::TINY);
    }
}
