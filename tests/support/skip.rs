//! Saying that a test does not run here, or in part only, so that `.ci/sums` counts it.
#![allow(dead_code)]

use std::io::Write;

/// Says that this test does not run, since the machine lacks `need`, one of those of `.ci/sums`.
pub fn skip(need: &str, why: &str) {
    without("SKIPPED", need, why);
}

/// Says that this test runs in part only, since the machine lacks `need`.
pub fn partly(need: &str, why: &str) {
    without("PARTLY", need, why);
}

fn without(what: &str, need: &str, why: &str) {
    let thread = std::thread::current();
    let line = format!("{what}: {}: {need}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}
