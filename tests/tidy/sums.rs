//! What `.ci/sums` makes of the log of a run: a test that was skipped did not pass.

use std::fs;

use super::files::ROOT;

/// What `.ci/sums` makes of a log: its status and its lines.
fn sums(log: &str) -> (bool, Vec<String>) {
    let name = format!("{}/sums-{}.log", env!("CARGO_TARGET_TMPDIR"), log.len());
    fs::write(&name, log).expect("a folder for logs");
    let mut command = std::process::Command::new(".ci/sums");
    let output = command.arg(&name).current_dir(ROOT).env_remove("RAIDSHMEM_SOAK").output();
    let output = output.expect(".ci/sums runs");
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text.lines().map(str::to_owned).collect())
}

#[test]
fn a_test_that_was_skipped_did_not_pass() {
    let result = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert_eq!(sums(result), (true, vec!["5 passed, 0 failed, 0 skipped".to_owned()]));
    let skip = "SKIPPED: a::b: soak: RAIDSHMEM_SOAK is not set";
    let (well, lines) = sums(&format!("test a::b ... {skip}\n{skip}\n{result}"));
    assert!(well && lines == [skip, "4 passed, 0 failed, 1 skipped"], "{lines:?}");
    // A need that is not in the list is none.
    let (well, lines) = sums(&format!("SKIPPED: a: money: there is none\n{result}"));
    assert!(
        !well && lines.last().is_some_and(|l| l == "4 passed, 1 failed, 1 skipped"),
        "{lines:?}"
    );
    // A test that was skipped for want of something that is here.
    let root = rustix::process::getuid().is_root();
    let (well, lines) = sums(&format!("PARTLY: a: root: not root\n{result}"));
    let wanted = format!("5 passed, {} failed, 0 skipped", u8::from(root));
    assert!(well != root && lines.last() == Some(&wanted), "{lines:?}");
}
