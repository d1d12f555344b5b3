//! Network namespaces of tests and benches, with their makers in their names; and those left by a
//! killed process.
//!
//! ```text
//! rshm PID - ...           of tests            rshm-bench- PID - ...      of the scorecard
//! ```

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the process that made a namespace of this name, if it is one of ours.
fn maker(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("rshm")?;
    let (pid, _) = rest.strip_prefix("-bench-").unwrap_or(rest).split_once('-')?;
    pid.parse().ok()
}

/// Removes the namespaces whose makers have ended, with the processes still in them. One whose
/// maker's process id was reused stays.
pub fn clear() {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let left = |name: &String| {
        maker(name).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    for name in names.filter(left) {
        // A command that fails was run by another test meanwhile.
        for pid in ip(&["netns", "pids", &name]).lines() {
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        ip(&["netns", "del", &name]);
    }
}

fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
