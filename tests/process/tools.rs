//! Programs under tools that watch them, with a PE that is killed and comes back under the tool.

use std::path::Path;

use super::support::{Job, has_tool, program, program_with};

/// PE 1 is killed, and the program says what it has counted.
#[track_caller]
fn survives(tool: &[&str]) {
    let count = program("count");
    runs(&[tool, &[count.to_str().expect("a path is text")]].concat());
}

#[track_caller]
fn runs(words: &[&str]) {
    let job = Job::new(3).mode("raid5").kill(&["1@3"]);
    let outcome = job.program(Path::new(words[0]), &words[1..]).run();
    outcome.status(0).says("all PEs resume from checkpoint");
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

#[test]
fn without_address_randomisation() {
    survives(&["setarch", "-R"]);
}

#[test]
fn under_the_thread_sanitizer() {
    let count = program_with("count", &["-fsanitize=thread"]);
    runs(&[count.to_str().expect("a path is text")]);
}
