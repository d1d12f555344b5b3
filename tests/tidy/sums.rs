//! The summary that `.ci/sums` makes from a run's log: a skipped test did not pass.

use std::fs;

use super::files::ROOT;

/// Runs `.ci/sums` on a log and returns its status and its lines.
fn sums(log: &str) -> (bool, Vec<String>) {
    let name = format!("{}/sums-{}.log", env!("CARGO_TARGET_TMPDIR"), log.len());
    fs::write(&name, log).expect("a folder for logs");
    let mut command = std::process::Command::new(".ci/sums");
    let output = command
        .arg(&name)
        .current_dir(ROOT)
        .env_remove("RAIDSHMEM_SOAK")
        .env_remove("RAIDSHMEM_ALL")
        .output();
    let output = output.expect(".ci/sums runs");
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text.lines().map(str::to_owned).collect())
}

/// Returns a row of a table with one blank between its columns.
fn words(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A hundred skipped tests give one row per need, and the single failure comes after them.
#[test]
fn failures_come_last_and_skips_are_a_table() {
    let left_out =
        |at: usize| format!("SKIPPED: a{at}: soak: none\nPARTLY: b{at}: all: {at} of 99 cases\n");
    let log: String = (0..50).map(left_out).collect();
    let failed = [
        "test result: ok. 100 passed; 0 failed; 0 ignored",
        "     Running tests/x/main.rs (x-1)",
        "test kill::y ... FAILED\n\nfailures:\n\n---- kill::y stdout ----\n\nthread panicked",
        "    indented\n\nfailures:\n    kill::y\n",
        "test result: FAILED. 2 passed; 1 failed; 0 ignored",
        "     Running tests/z/main.rs (z-1)",
        "  process didn't exit successfully: `z-1` (signal: 6)\n",
    ];
    let log = log + &failed.join("\n");
    let (well, lines) = sums(&log);
    let lines: Vec<String> = lines.iter().map(|line| words(line)).collect();
    let expected = [
        "left out for skipped in part why",
        "all 0 50 for several reasons: see above",
        "soak 50 0 none",
        "FAILED: tests/x/main.rs: kill::y",
        "thread panicked",
        "indented",
        "FAILED: tests/z/main.rs: process didn't exit successfully: `z-1` (signal: 6)",
        "52 passed, 1 failed, 50 skipped",
    ];
    assert!(!well && lines == expected, "{lines:#?}");
}

#[test]
fn a_test_that_was_skipped_did_not_pass() {
    let result = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert_eq!(sums(result), (true, vec!["5 passed, 0 failed, 0 skipped".to_owned()]));
    let skip = "SKIPPED: a::b: soak: RAIDSHMEM_SOAK is not set";
    let (well, lines) = sums(&format!("test a::b ... {skip}\n{skip}\n{result}"));
    let rows = ["left out for skipped in part why", "soak 1 0 RAIDSHMEM_SOAK is not set"];
    assert!(well && lines.len() == 3 && lines[2] == "4 passed, 0 failed, 1 skipped", "{lines:?}");
    assert_eq!(lines[..2].iter().map(|row| words(row)).collect::<Vec<_>>(), rows);
    // A need that is not in the list is invalid.
    let (well, lines) = sums(&format!("SKIPPED: a: money: we have no money\n{result}"));
    assert!(
        !well && lines.last().is_some_and(|l| l == "4 passed, 1 failed, 1 skipped"),
        "{lines:?}"
    );
    // A test that was skipped for lack of something that is present.
    let root = rustix::process::getuid().is_root();
    let (well, lines) = sums(&format!("PARTLY: a: root: not root\n{result}"));
    let wanted = format!("5 passed, {} failed, 0 skipped", u8::from(root));
    assert!(well != root && lines.last() == Some(&wanted), "{lines:?}");
}
