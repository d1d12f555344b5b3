//! Programs under tools that watch them, with a PE that is killed and restarts under the tool.

use std::path::Path;

use super::support::{Job, Outcome, has_tool, program, program_with};

/// Kills PE 1, and checks that the program prints its count.
#[track_caller]
fn survives(tool: &[&str]) -> Outcome {
    let count = program("count");
    runs(&[tool, &[count.to_str().expect("a path is text")]].concat())
}

#[track_caller]
fn runs(words: &[&str]) -> Outcome {
    let job = Job::new(3).mode("raid5").kill(&["1@3"]).slower(10);
    let outcome = job.program(Path::new(words[0]), &words[1..]).run();
    outcome.status(0).says("all PEs resume from checkpoint");
    outcome.check(outcome.out.lines().any(|line| line == "sum 570"), "its sum was expected");
    outcome
}

#[test]
fn under_gdb() {
    if has_tool("gdb") {
        survives(&["gdb", "-q", "--batch", "-ex", "run", "--args"]);
    }
}

#[test]
fn under_strace() {
    if has_tool("strace") {
        survives(&["strace", "-f", "-qq", "-o", "/dev/null"]);
    }
}

#[test]
fn under_perf() {
    if has_tool("perf") {
        survives(&["perf", "stat", "-o", "/dev/null"]);
    }
}

/// Memcheck reports nothing in the library, and scans memory for leaks at the end.
#[test]
fn under_valgrind() {
    if has_tool("valgrind") {
        let kept =
            concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/packaging/raidshmem.supp");
        let tool = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", kept];
        let outcome = survives(&tool);
        outcome.check(!outcome.err.contains("=="), "no line of valgrind was expected");
    }
}

#[test]
fn under_heaptrack() {
    if has_tool("heaptrack") {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("heaptrack");
        std::fs::create_dir_all(&folder).expect("a folder for what it writes");
        let own_file = format!("exec heaptrack -o {}/$$ \"$@\"", folder.display());
        survives(&["sh", "-c", &own_file, "sh"]);
        let files = std::fs::read_dir(&folder).expect("it is there").count();
        assert!(files >= 3, "each process that came to its end has a file: {files}");
        std::fs::remove_dir_all(&folder).expect("nobody uses it");
    }
}

#[test]
fn without_address_randomisation() {
    survives(&["setarch", "-R"]);
}

#[test]
fn under_the_thread_sanitizer() {
    let count = program_with("count", &["-fsanitize=thread"]);
    runs(&[count.to_str().expect("a path is text")]);
}
