//! How many processes there may be, for people: said when the kernel has refused one more, and does
//! not say why.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Every limit on the number of processes, as a part of a line.
pub fn of_processes() -> String {
    let user = getrlimit(Resource::Nproc).current.map_or("unlimited".into(), |n| n.to_string());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group =
        pids_max(&groups, Path::new("/sys/fs/cgroup"), |path| std::fs::read_to_string(path).ok());
    let group = group.map_or(String::new(), |(n, path)| format!(", {} is {n}", path.display()));
    format!("ulimit -u is {user}{group}, and kernel.pid_max is {}", kernel.trim())
}

/// The least `pids.max` of the control groups of a process, and where it is. `groups` is what
/// `/proc/self/cgroup` says: a line `0::PATH`, or in the first version of groups one a kind.
fn pids_max(
    groups: &str,
    root: &Path,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<(u64, PathBuf)> {
    let folders = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (kinds, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        match kinds {
            "" => Some((root.to_owned(), path)),
            _ => kinds.split(',').any(|kind| kind == "pids").then(|| (root.join("pids"), path)),
        }
    });
    let files = folders.flat_map(|(top, path)| {
        let inner = Path::new(path).ancestors().map(|part| top.join(part).join("pids.max"));
        inner.collect::<Vec<_>>()
    });
    files.filter_map(|file| Some((read(&file)?.trim().parse().ok()?, file))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_groups_above_counts() {
        let read = |path: &Path| match path.to_str()? {
            "/cg/pids.max" => None, // the topmost has none
            "/cg/job/pids.max" => Some("max\n".to_owned()),
            "/cg/job/step/pids.max" => Some("40\n".to_owned()),
            "/cg/job/step/task/pids.max" => Some("64\n".to_owned()),
            "/cg/pids/box/pids.max" => Some("12\n".to_owned()),
            other => panic!("{other}"),
        };
        let found = |groups: &str| {
            let (most, path) = pids_max(groups, Path::new("/cg"), read)?;
            Some((most, path.to_str()?.to_owned()))
        };
        let step = Some((40, "/cg/job/step/pids.max".to_owned()));
        assert_eq!(found("0::/job/step/task\n"), step);
        assert_eq!(found("0::/job\n"), None);
        let first = "9:name=systemd:/\n4:memory:/x\n";
        assert_eq!(found(first), None);
        assert_eq!(
            pids_max("8:cpu,pids:/box\n", Path::new("/cg"), |path| {
                path.ends_with("box/pids.max").then(|| "12\n".to_owned())
            })
            .map(|(most, _)| most),
            Some(12)
        );
    }

    #[test]
    fn they_are_all_named() {
        let line = of_processes();
        for word in ["ulimit -u is ", "kernel.pid_max is "] {
            assert!(line.contains(word), "{line}");
        }
    }
}
