//! Memory files with huge pages, whatever the machine's administrator has configured.
//!
//! `transparent_hugepage/shmem_enabled` controls huge pages of `memfd`; it is `never` on most
//! systems. It applies only to the kernel's internal file system. A tmpfs that a process mounts
//! itself has an option of its own, and provides huge pages where `madvise` requests them. Creating
//! one requires the right to mount. A process without that right creates a user namespace, which
//! grants it, in a child that shares its descriptors, exits at once, and leaves the file system
//! behind.
//!
//! Invariant: the file system is not mounted anywhere. Only its descriptor and the files in it keep
//! it alive; it disappears with the last of them, however their processes end. A file has a name
//! for a moment, which only a holder of the descriptor could look up.
//!
//! Left out: reserved huge pages (hugetlbfs), which only the administrator can provide.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ftruncate, open, openat, unlinkat};
use rustix::io::{DupFlags, Errno, Result, dup3, write};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use rustix::process::{Pid, WaitOptions, getgid, getuid, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::memory;

/// The reason why there is no such file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoHuge {
    /// The kernel was built without huge pages.
    #[error("the kernel has none")]
    Unknown,
    /// Shared memory must not have them.
    #[error("transparent_hugepage/shmem_enabled is deny")]
    Denied,
    /// The kernel refused it, with this process's rights and in a namespace.
    #[error("mounting a tmpfs: {0}")]
    Mount(#[from] Errno),
}

/// A file system whose files have huge pages where requested ([`memory::ask_huge`]).
#[derive(Debug)]
pub struct HugeFiles {
    root: OwnedFd,
}

impl HugeFiles {
    /// Creates one.
    pub fn new() -> std::result::Result<HugeFiles, NoHuge> {
        HugeFiles::of(|| mount().or_else(|_| mount_in_namespace()))
    }

    /// Creates one through a namespace, like a process without the right to mount.
    pub fn by_namespace() -> std::result::Result<HugeFiles, NoHuge> {
        HugeFiles::of(mount_in_namespace)
    }

    fn of(mount: impl Fn() -> Result<OwnedFd>) -> std::result::Result<HugeFiles, NoHuge> {
        match memory::huge_pages().as_deref() {
            None => Err(NoHuge::Unknown),
            Some("deny") => Err(NoHuge::Denied),
            Some(_) => Ok(HugeFiles { root: mount()? }),
        }
    }

    /// Creates a sparse memory file of `len` bytes, like [`memory::create`].
    pub fn create(&self, name: &str, len: usize) -> Result<OwnedFd> {
        memory::check_len(len)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&self.root, name, flags, Mode::RUSR | Mode::WUSR)?;
        unlinkat(&self.root, name, AtFlags::empty())?;
        ftruncate(&file, len as u64)?;
        Ok(file)
    }
}

/// Creates a tmpfs without size limits, not mounted anywhere.
fn mount() -> Result<OwnedFd> {
    let options = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [(c"huge", c"advise"), (c"size", c"0"), (c"nr_inodes", c"0")] {
        fsconfig_set_string(options.as_fd(), key, value)?;
    }
    fsconfig_create(options.as_fd())?;
    use MountAttrFlags as Attr;
    let attributes = Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NODEV | Attr::MOUNT_ATTR_NOEXEC;
    fsmount(options.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Like [`mount`], but in a child's user namespace, in which user and group map to themselves.
fn mount_in_namespace() -> Result<OwnedFd> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let (users, groups) = (format!("{user} {user} 1"), format!("{group} {group} 1"));
    let maps = [
        (c"/proc/self/uid_map", users.as_bytes()),
        (c"/proc/self/setgroups", b"deny"),
        (c"/proc/self/gid_map", groups.as_bytes()),
    ];
    // The child replaces this descriptor with the file system.
    let mut place = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let work = || {
        // SAFETY: a process with one thread, which gets namespaces and keeps its descriptors.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)? };
        for (file, text) in maps {
            let file = open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            write(&file, text)?;
        }
        dup3(mount()?, &mut place, DupFlags::CLOEXEC)
    };
    // SAFETY: these are system calls, with data prepared before.
    unsafe { in_child(work)? };
    Ok(place)
}

/// Runs `work` in a child that shares this process's descriptors rather than copying them, and
/// waits for its end. The program gets no signal for it, and its handling of SIGCHLD does not
/// matter.
///
/// # Safety
/// `work` must make system calls only: a lock that another thread holds is never released there.
unsafe fn in_child(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let flags = libc::CLONE_FILES;
    // SAFETY: like fork, except for the descriptors: the child has its own copy of all memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        let status = work().err().map_or(0, Errno::raw_os_error);
        // SAFETY: ends the child without any cleanup meant for its parent.
        unsafe { libc::_exit(status) }
    }
    let pid = Pid::from_raw(pid as i32).filter(|_| pid > 0).ok_or(Errno::AGAIN)?;
    let any = WaitOptions::from_bits_retain(libc::__WALL as u32); // also without an exit signal
    let ended = rustix::io::retry_on_intr(|| waitpid(Some(pid), any))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(error)),
        None => Err(Errno::CHILD),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use raidshmem_core::page::{HUGE, PAGE};

    use super::*;
    use crate::memory::{Mapping, allocated, ask_huge};

    /// Checks that the requested range has huge pages, and that no more is allocated.
    fn gives_what_is_asked_for(files: &HugeFiles) {
        let (len, used) = (16 * HUGE, 3 * HUGE + 5 * PAGE);
        let file = files.create("test", len).unwrap();
        let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert_eq!(name.to_str(), Some("/test (deleted)"));
        let map = Mapping::new(file.as_fd(), 0, len, None, true).unwrap();
        ask_huge(map.base() as usize + HUGE, used);
        memory::populate(map.base() as usize + HUGE, used);
        assert_eq!(allocated(&file).unwrap(), used as u64);
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let from = format!("{:x}-", map.base() as usize + HUGE);
        let lines = smaps.lines().skip_while(|line| !line.starts_with(&from));
        let mut huge = lines.filter_map(|line| line.strip_prefix("ShmemPmdMapped:"));
        let kib = huge.next().unwrap().trim().trim_end_matches(" kB").parse::<usize>().unwrap();
        assert_eq!(kib << 10, 3 * HUGE, "{smaps}");
    }

    #[test]
    fn a_file_has_huge_pages_where_they_are_asked_for() {
        for made in [HugeFiles::of(mount), HugeFiles::by_namespace()] {
            match made {
                Ok(files) => gives_what_is_asked_for(&files),
                Err(NoHuge::Mount(error)) => {
                    assert!([Errno::PERM, Errno::NOSYS, Errno::NOSPC].contains(&error), "{error}");
                }
                Err(NoHuge::Unknown | NoHuge::Denied) => {}
            }
        }
    }
}
