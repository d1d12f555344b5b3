//! Limits on processes and their memory, for messages about a refusal that the kernel does not
//! explain.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::cgroup;

/// Lists every limit on the number of processes, as part of a line.
pub fn of_processes() -> String {
    let user = getrlimit(Resource::Nproc).current.map_or("unlimited".into(), |n| n.to_string());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let group = pids_max(cgroup::own("pids"), |path| std::fs::read_to_string(path).ok());
    let group = group.map_or(String::new(), |(n, path)| format!(", {} is {n}", path.display()));
    format!("ulimit -u is {user}{group}, and kernel.pid_max is {}", kernel.trim())
}

/// Returns the limit of address space as part of a line, if there is one.
pub fn of_address_space() -> Option<String> {
    let bytes = getrlimit(Resource::As).current?;
    Some(format!("ulimit -v is {} (KiB)", bytes >> 10))
}

/// Returns the least `pids.max` of these control groups, and its file.
fn pids_max(
    folders: Vec<PathBuf>,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<(u64, PathBuf)> {
    let files = folders.into_iter().map(|folder| folder.join("pids.max"));
    files.filter_map(|file| Some((read(&file)?.trim().parse().ok()?, file))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_groups_above_counts() {
        let read = |path: &Path| match path.to_str()? {
            "/cg/job/pids.max" => Some("max\n".to_owned()),
            "/cg/job/step/pids.max" => Some("40\n".to_owned()),
            "/cg/job/step/task/pids.max" => Some("64\n".to_owned()),
            _ => None, // the topmost group has no limit
        };
        let found = |folders: &[&str]| pids_max(folders.iter().map(PathBuf::from).collect(), read);
        let step = Some((40, PathBuf::from("/cg/job/step/pids.max")));
        assert_eq!(found(&["/cg/job/step/task", "/cg/job/step", "/cg/job", "/cg"]), step);
        assert_eq!(found(&["/cg/job", "/cg"]), None);
    }

    #[test]
    fn every_limit_is_named() {
        let line = of_processes();
        for word in ["ulimit -u is ", "kernel.pid_max is "] {
            assert!(line.contains(word), "{line}");
        }
    }
}
