//! Control groups of this process: their folders, and the memory that they leave.
//!
//! A process is in one group of the tree of cgroup v2, and in one group of each tree of v1. The
//! limits of all groups above it apply as well, as far as they are visible: in a container the
//! topmost group is that of the container.
//!
//! The usage of a group includes page cache, which the kernel drops when it needs memory. It counts
//! as free here, as in `MemAvailable`. `memory.high` is a limit like `memory.max`: a group that
//! exceeds it is not killed, but its processes are throttled until they make no progress.
//!
//! Left out: swap, which `MemAvailable` leaves out as well.

#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};

/// The memory limit of a process's groups, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupMemory {
    /// The lowest limit.
    pub limit: u64,
    /// Bytes available before the first limit is reached.
    pub free: u64,
}

/// Returns the memory of this process's groups; None if no group has a limit.
pub fn memory() -> Option<CgroupMemory> {
    memory_of(own("memory"), |file| std::fs::read_to_string(file).ok())
}

/// Returns the folders of this process's groups that may limit `controller`.
pub fn own(controller: &str) -> Vec<PathBuf> {
    let read = |file: &str| std::fs::read(file).unwrap_or_default();
    let [groups, mounts] = ["/proc/self/cgroup", "/proc/self/mountinfo"].map(read);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    folders(&text(&groups), &text(&mounts), controller)
}

/// Like [`own`], but takes the contents of `/proc/self/cgroup` and `/proc/self/mountinfo`. In each
/// tree the group of the process comes first, followed by those above it.
pub fn folders(groups: &str, mounts: &str, controller: &str) -> Vec<PathBuf> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let innermost = groups.lines().filter_map(|line| {
        // NUMBER:CONTROLLERS:PATH; no controllers in v2.
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, Path::new(fields.next()?));
        let is_its = |mount: &&Mount| match (controllers, mount.options) {
            ("", options) => options.is_none(),
            (_, Some(options)) => has(controllers, controller) && has(options, controller),
            (_, None) => false,
        };
        mounts.iter().filter(is_its).find_map(|mount| mount.folders(path))
    });
    innermost.flatten().collect()
}

fn has(list: &str, word: &str) -> bool {
    list.split(',').any(|other| other == word)
}

/// A mounted tree of groups, or a part of one.
struct Mount<'a> {
    /// The group that is visible at `point`.
    root: PathBuf,
    point: PathBuf,
    /// Mount options, which include the controllers, in v1; None in v2.
    options: Option<&'a str>,
}

impl Mount<'_> {
    /// Parses `ID PARENT DEVICE ROOT POINT OPTIONS .. - TYPE SOURCE OPTIONS`; None for other file
    /// systems.
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescape(place.next()?), unescape(place.next()?));
        let mut system = system.split(' ');
        let options = match system.next()? {
            "cgroup2" => None,
            "cgroup" => Some(system.nth(1)?),
            _ => return None,
        };
        Some(Mount { root, point, options })
    }

    /// Returns the folders of a group and of those above it; None if the group is not visible here.
    fn folders(&self, group: &Path) -> Option<Vec<PathBuf>> {
        let inside = group.strip_prefix(&self.root).ok()?;
        let is_plain = |part: Component| matches!(part, Component::Normal(_));
        let seen = inside.components().all(is_plain); // otherwise it is outside of the namespace
        seen.then(|| inside.ancestors().map(|part| self.point.join(part)).collect())
    }
}

/// Decodes spaces and similar characters, which are escaped as a backslash and three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut pieces = text.split('\\');
    let first = pieces.next().unwrap_or_default().to_owned();
    let whole = pieces.fold(first, |done, piece| {
        let digits = piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match digits.filter(u8::is_ascii) {
            Some(code) => done + char::from(code).encode_utf8(&mut [0; 4]) + &piece[3..],
            None => done + "\\" + piece,
        }
    });
    PathBuf::from(whole)
}

/// Returns the memory that groups in these folders leave together; None if no group has a limit.
pub fn memory_of(
    folders: impl IntoIterator<Item = PathBuf>,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<CgroupMemory> {
    let one = |folder: PathBuf| group(|file| read(&folder.join(file)));
    let least = |a: CgroupMemory, b: CgroupMemory| CgroupMemory {
        limit: a.limit.min(b.limit),
        free: a.free.min(b.free),
    };
    folders.into_iter().filter_map(one).reduce(least)
}

/// Reads one group, from the files of either version.
fn group(read: impl Fn(&str) -> Option<String>) -> Option<CgroupMemory> {
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok(); // `max`: no limit
    let stat = read("memory.stat").unwrap_or_default();
    let field = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
        stat.lines().find_map(value)
    };
    // In v1, sums over the groups below have names of their own.
    let with_below = |name: &str| field(&format!("total_{name}")).or_else(|| field(name));
    let pages = ["inactive_file", "active_file", "slab_reclaimable"];
    let pages = pages.into_iter().filter_map(with_below).fold(0, u64::saturating_add);
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let above = field("hierarchical_memory_limit"); // v1: of all groups above, visible or not
    let limit = limits.into_iter().filter_map(number).chain(above).min()?;
    let used = ["memory.current", "memory.usage_in_bytes"].into_iter().find_map(number)?;
    Some(CgroupMemory { limit, free: limit.saturating_sub(used.saturating_sub(pages)) })
}

#[cfg(test)]
mod tests;
