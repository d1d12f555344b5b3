//! Memory files that have huge pages, whatever the machine's administrator has set.
//!
//! `transparent_hugepage/shmem_enabled` says whether `memfd` has huge pages; it is `never` on most
//! systems. It holds for one file system, the kernel's own. A tmpfs that a process makes for itself
//! has an option of its own, and gives huge pages if `madvise` asks for them. To make one takes the
//! right to mount. A process without it makes a user namespace, where it has it, in a child that
//! shares its descriptors, ends at once, and leaves the file system behind.
//!
//! Invariant: the file system is mounted nowhere. A descriptor holds it, and the files in it do; it
//! is gone with the last of them, however the processes that have them end. A file has a name for a
//! moment, which only a holder of the descriptor could look up.
//!
//! Left out: huge pages that are set aside (hugetlbfs). They are the administrator's to give.

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

/// Why there is no such file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoHuge {
    /// The kernel was built without huge pages.
    #[error("the kernel has none")]
    Unknown,
    /// No shared memory may have them.
    #[error("transparent_hugepage/shmem_enabled is deny")]
    Denied,
    /// The kernel refused it, with this process's rights and with a namespace's.
    #[error("mounting a tmpfs: {0}")]
    Mount(#[from] Errno),
}

/// A file system whose files have huge pages where they are asked for ([`memory::ask_huge`]).
#[derive(Debug)]
pub struct HugeFiles {
    root: OwnedFd,
}

impl HugeFiles {
    /// Makes one.
    pub fn new() -> std::result::Result<HugeFiles, NoHuge> {
        HugeFiles::of(|| mount().or_else(|_| mount_in_namespace()))
    }

    /// Makes one as who may not mount does.
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

    /// Makes a sparse memory file of `len` bytes, as [`memory::create`] does.
    pub fn create(&self, name: &str, len: usize) -> Result<OwnedFd> {
        memory::check_len(len)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&self.root, name, flags, Mode::RUSR | Mode::WUSR)?;
        unlinkat(&self.root, name, AtFlags::empty())?;
        ftruncate(&file, len as u64)?;
        Ok(file)
    }
}

/// A tmpfs without limits of its own, mounted nowhere.
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

/// The same by a child in a user namespace, in which user and group are what they are here.
fn mount_in_namespace() -> Result<OwnedFd> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let (users, groups) = (format!("{user} {user} 1"), format!("{group} {group} 1"));
    let maps = [
        (c"/proc/self/uid_map", users.as_bytes()),
        (c"/proc/self/setgroups", b"deny"),
        (c"/proc/self/gid_map", groups.as_bytes()),
    ];
    // The child puts the file system in this one's place.
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
    // SAFETY: these are system calls, with words that were made before.
    unsafe { in_child(work)? };
    Ok(place)
}

/// Does `work` in a child that has this process's descriptors, not a copy of them, and waits for
/// its end. The program is told of no end, and its own way with SIGCHLD changes nothing.
///
/// # Safety
/// `work` must make system calls only: no lock that another thread holds is ever released there.
unsafe fn in_child(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let flags = libc::CLONE_FILES;
    // SAFETY: as fork, but for the descriptors: the child has its own copy of all memory.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        let status = work().err().map_or(0, Errno::raw_os_error);
        // SAFETY: ends the child without anything that would be done for its parent.
        unsafe { libc::_exit(status) }
    }
    let pid = Pid::from_raw(pid as i32).filter(|_| pid > 0).ok_or(Errno::AGAIN)?;
    let any = WaitOptions::from_bits_retain(libc::__WALL as u32); // one that sends no signal too
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

    /// What is asked for is had in huge pages, and nothing beyond it is taken.
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
