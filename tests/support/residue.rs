//! What a job may not leave behind, and clearing it away.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::Running;
use super::processes::{self, Found};

/// How long orphans may take to end, and output to close.
const MOMENT: Duration = Duration::from_secs(5);

/// Entries of `/dev/shm`, without those of Open MPI jobs that others may run meanwhile.
pub fn shm() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("vader_segment.")).collect()
}

/// Everything the job left, a line each. Its launcher has ended.
pub fn look(run: &Running) -> Vec<String> {
    let mut left = Vec::new();
    if run.orphans {
        let end = Instant::now() + MOMENT;
        for found in run.processes() {
            processes::ends_before(found.pid, end);
        }
        collect(&run.processes());
    }
    left.extend(run.processes().iter().map(Found::line));
    if left.is_empty() && !run.heard.wait(Instant::now() + MOMENT, |said| said.ends == 2) {
        left.push("its output is still open, so somebody holds it".to_owned());
    }
    let new = shm().into_iter().filter(|name| !run.shm.contains(name));
    left.extend(new.map(|name| format!("/dev/shm/{name}")));
    let files = std::fs::read_dir(&run.folder).into_iter().flatten().flatten();
    left.extend(files.map(|file| format!("file {}", file.path().display())));
    left
}

/// Collects those that have ended and are children of this process now.
fn collect(found: &[Found]) {
    for dead in found.iter().filter(|found| found.parent == std::process::id()) {
        let _ = waitpid(Pid::from_raw(dead.pid as i32), WaitOptions::NOHANG);
    }
}

/// Ends a job that is not wanted any more.
pub fn kill_all(run: &Running) {
    let end = Instant::now() + MOMENT;
    // The launcher last but one: those it would start meanwhile are found in the second round.
    for _ in 0..2 {
        for found in run.processes() {
            processes::signal(found.pid, Signal::KILL);
            processes::ends_before(found.pid, end);
        }
    }
    let launcher = run.launcher();
    collect(&run.processes().into_iter().filter(|f| f.pid != launcher).collect::<Vec<_>>());
    let _ = std::fs::remove_dir_all(&run.folder);
}
