//! Anonymous shared memory (memfd): creation, mapping, and release of its pages.
//!
//! Invariant: memory created here has no name in any file system, so it disappears with the last
//! process that holds it, however that process ends.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use raidshmem_core::page::HUGE;
use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom};
use rustix::fs::{fallocate, fstat, ftruncate, memfd_create, seek};
use rustix::io::{Errno, Result};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous,
    mprotect, mremap_fixed, munmap,
};
use rustix::process::{Resource, getrlimit};

use crate::cgroup;

/// Returns this kernel's page size in bytes; [`PAGE`](raidshmem_core::page::PAGE) is a multiple of
/// it.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Makes a sparse memory file of `len` bytes; pages are allocated when first written.
pub fn create(name: &str, len: usize) -> Result<OwnedFd> {
    check_len(len)?;
    let fd = memfd_create(name, MemfdFlags::CLOEXEC)?;
    ftruncate(&fd, len as u64)?;
    Ok(fd)
}

/// Rejects a file longer than this process may create: the kernel would kill it with a signal.
pub fn check_len(len: usize) -> Result<()> {
    let most = getrlimit(Resource::Fsize).current;
    if most.is_some_and(|most| most < len as u64) { Err(Errno::FBIG) } else { Ok(()) }
}

/// Writes all of `bytes` to a memory file.
pub fn write_at(fd: impl AsFd, at: usize, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(&fd, &bytes[done..], (at + done) as u64) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `bytes` from a memory file.
pub fn read_at(fd: impl AsFd, at: usize, bytes: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(&fd, &mut bytes[done..], (at + done) as u64) {
            Ok(0) => return Err(Errno::NXIO),
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Part of a memory file: the memory of one PE in that of its node. Offsets are relative to it.
#[derive(Debug, Clone)]
pub struct Part {
    file: Arc<OwnedFd>,
    from: usize,
    len: usize,
}

impl Part {
    /// Returns the part `[from, from + len)` of `file`.
    pub fn new(file: Arc<OwnedFd>, from: usize, len: usize) -> Part {
        Part { file, from, len }
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true for a part of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the file offset of byte `at`, if `len` bytes from there are inside.
    fn place(&self, at: usize, len: usize) -> Result<u64> {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        if inside { Ok((self.from + at) as u64) } else { Err(Errno::NXIO) }
    }

    /// Maps `len` bytes from `offset`, like [`Mapping::new`].
    pub fn map(
        &self,
        offset: usize,
        len: usize,
        at: Option<usize>,
        writable: bool,
    ) -> Result<Mapping> {
        let place = self.place(offset, len)? as usize;
        Mapping::new(self.file.as_fd(), place, len, at, writable)
    }

    /// Like [`move_to_file`], but to byte `offset` of this part.
    ///
    /// # Safety
    /// As for [`move_to_file`].
    pub unsafe fn move_here(&self, offset: usize, len: usize, at: usize) -> Result<()> {
        let place = self.place(offset, len)? as usize;
        // SAFETY: the caller's promise.
        unsafe { move_to_file(self.file.as_fd(), place, len, at) }
    }

    /// Returns every page of it to the kernel: all bytes then read as zero, in every process that
    /// maps it. On one machine this makes the loss of a node's memory real.
    pub fn wipe(&self) -> Result<()> {
        self.give_back(0, self.len)
    }

    /// Returns some of its pages to the kernel: their bytes then read as zero.
    pub fn give_back(&self, at: usize, len: usize) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, self.place(at, len)?, len as u64)
    }

    /// Fills `bytes` from this part.
    pub fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<()> {
        read_at(&self.file, self.place(at, bytes.len())? as usize, bytes)
    }

    /// Writes all of `bytes` to this part.
    pub fn write_at(&self, at: usize, bytes: &[u8]) -> Result<()> {
        write_at(&self.file, self.place(at, bytes.len())? as usize, bytes)
    }

    /// Returns the number of bytes of `[from, from + len)` without pages; reading them through a
    /// mapping allocates as much memory as writing them.
    pub fn absent(&self, from: usize, len: usize) -> u64 {
        let Ok(start) = self.place(from, len) else { return 0 };
        let (mut at, end, mut absent) = (start, start + len as u64, 0);
        let file = &self.file;
        while at < end {
            let data = seek(file, SeekFrom::Data(at)).unwrap_or(end).min(end); // none: to the end
            absent += data - at;
            at = seek(file, SeekFrom::Hole(data)).unwrap_or(end);
        }
        absent
    }
}

/// Returns the number of bytes that the file actually occupies.
pub fn allocated(fd: impl AsFd) -> Result<u64> {
    Ok(fstat(fd)?.st_blocks as u64 * 512)
}

/// A shared mapping of a memory file or a range of it, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range; the code that hands out addresses is responsible for
// accesses to its bytes, not the range.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`, readable and optionally writable. Maps at `at` if
    /// given, and fails if that range is in use; otherwise anywhere, aligned to huge pages if
    /// possible and long enough for one.
    pub fn new(
        fd: BorrowedFd,
        offset: usize,
        len: usize,
        at: Option<usize>,
        writable: bool,
    ) -> Result<Mapping> {
        let place = if at.is_none() && len >= HUGE { free(len + HUGE) } else { None };
        let place = place.map(|start| start.next_multiple_of(HUGE));
        let there = place.map(|place| Mapping::map(fd, offset, len, Some(place), writable));
        match there {
            Some(Ok(mapping)) => Ok(mapping),
            // The range was taken meanwhile, or there is not enough address space.
            _ => Mapping::map(fd, offset, len, at, writable),
        }
    }

    fn map(
        fd: BorrowedFd,
        offset: usize,
        len: usize,
        at: Option<usize>,
        writable: bool,
    ) -> Result<Mapping> {
        let mut flags = MapFlags::SHARED | MapFlags::NORESERVE;
        if at.is_some() {
            flags |= MapFlags::FIXED_NOREPLACE;
        }
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let hint = at.unwrap_or(0) as *mut core::ffi::c_void;
        // SAFETY: without FIXED the kernel chooses free addresses, with FIXED_NOREPLACE it refuses
        // a range in use; no existing mapping is touched either way.
        let base = unsafe { mmap(hint, len, prot, flags, fd, offset as u64)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        if at.is_some_and(|at| at != base.as_ptr() as usize) {
            // SAFETY: the range was just mapped here and no other code knows it.
            unsafe { munmap(base.as_ptr().cast(), len)? };
            return Err(rustix::io::Errno::EXIST);
        }
        Ok(Mapping { base, len })
    }

    /// Returns the address of `len` bytes from `from`.
    fn inside(&self, from: usize, len: usize) -> *mut core::ffi::c_void {
        let inside = from.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "bytes {from}+{len} of a mapping of {}", self.len);
        self.base().wrapping_add(from).cast()
    }

    /// Fills the `len` bytes from `from` with those of a file from `at`. The kernel writes them, as
    /// in [`write_at`]: lack of memory is an error, not a signal.
    pub fn fill(&self, from: usize, len: usize, file: impl AsFd, at: u64) -> Result<()> {
        let (into, file, mut done) = (self.inside(from, len), file.as_fd().as_raw_fd(), 0);
        while done < len {
            let (rest, at) = (len - done, (at + done as u64) as libc::off_t);
            // SAFETY: the bytes are inside this mapping, and the kernel writes them as it would
            // through the file: no reference to them is made here.
            match unsafe { libc::pread(file, into.wrapping_byte_add(done).cast(), rest, at) } {
                0 => return Err(Errno::NXIO),
                read @ 1.. => done += read as usize,
                _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                    Some(Errno::INTR) => {}
                    error => return Err(error.unwrap_or(Errno::INVAL)),
                },
            }
        }
        Ok(())
    }

    /// Makes the `len` bytes from `from`, whole pages, writable.
    pub fn open(&self, from: usize, len: usize) -> Result<()> {
        self.protect(from, len, true)
    }

    /// Makes the `len` bytes from `from`, whole pages, writable or read-only.
    pub fn protect(&self, from: usize, len: usize, writable: bool) -> Result<()> {
        let read = MprotectFlags::READ;
        let flags = if writable { read | MprotectFlags::WRITE } else { read };
        // SAFETY: inside the mapping; a write that is no longer allowed ends in a signal.
        unsafe { mprotect(self.inside(from, len), len, flags) }
    }

    /// Maps `len` bytes of `part` from `offset` in place of those from `from`, whole pages,
    /// readable and writable; writes are visible to other processes if `shared`, otherwise private.
    ///
    /// # Safety
    /// No reference to these bytes is in use.
    pub unsafe fn map_again(
        &self,
        (part, offset): (&Part, usize),
        from: usize,
        len: usize,
        shared: bool,
    ) -> Result<()> {
        let (prot, at) = (ProtFlags::READ | ProtFlags::WRITE, self.inside(from, len));
        let whose = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        let flags = whose | MapFlags::FIXED | MapFlags::NORESERVE;
        let place = part.place(offset, len)?;
        // SAFETY: inside the mapping, which this value may change; the rest by the caller's
        // promise.
        unsafe { mmap(at, len, prot, flags, part.file.as_fd(), place).map(drop) }
    }

    /// Maps read-only zeroes in place of the `len` bytes from `from`, whole pages.
    ///
    /// # Safety
    /// These bytes are no longer in use.
    pub unsafe fn blank(&self, from: usize, len: usize) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: inside the mapping, which this value may change; the rest by the caller's
        // promise.
        unsafe { mmap_anonymous(self.inside(from, len), len, ProtFlags::READ, flags).map(drop) }
    }

    /// Returns the address of the first byte.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true for a mapping of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped once.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Returns the start of `len` bytes of address space that are unmapped at this moment.
fn free(len: usize) -> Option<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses free addresses, and the mapping there is removed again before any
    // other code knows of it.
    unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), flags).ok()?;
        munmap(start, len).ok()?;
        Some(start as usize)
    }
}

/// Copies the memory at `at` to `offset` of a memory file, and maps the file in its place. Writes
/// by other threads between the two steps are lost.
///
/// # Safety
/// `[at, at + len)` must be whole mapped pages, readable, and the caller's to replace; no Rust
/// reference to anything in it is used meanwhile.
unsafe fn move_to_file(fd: BorrowedFd, offset: usize, len: usize, at: usize) -> Result<()> {
    let mut done = 0;
    while done < len {
        let from = std::ptr::with_exposed_provenance::<core::ffi::c_void>(at + done);
        let (left, to) = (len - done, (offset + done) as i64);
        // Copied by the kernel, from an address: other threads may write there. Through `syscall`:
        // `pwrite` is a function that AddressSanitizer replaces, and it takes a copy of the gaps
        // between variables for a bug.
        // SAFETY: readable (the caller's promise).
        let wrote = unsafe { libc::syscall(libc::SYS_pwrite64, fd.as_raw_fd(), from, left, to) };
        match usize::try_from(wrote) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(wrote) => done += wrote,
            Err(_) => match std::io::Error::last_os_error() {
                error if error.kind() == std::io::ErrorKind::Interrupted => {}
                error => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            },
        }
    }
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: the caller's promise above.
    unsafe { mmap(at as *mut core::ffi::c_void, len, prot, flags, fd, offset as u64)? };
    Ok(())
}

/// Fills new private memory with `fill`, and maps it in place of the memory `at` some addresses.
///
/// # Safety
/// Whole pages that are the caller's to replace, and to which no reference exists.
pub(crate) unsafe fn replace(
    at: Range<usize>,
    fill: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let (len, prot) = (at.len(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel chooses free addresses.
    let new = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, MapFlags::PRIVATE)? };
    // SAFETY: just mapped, so of this length, full of zeroes, and not in use elsewhere.
    fill(unsafe { std::slice::from_raw_parts_mut(new.cast(), len) })?;
    let at = std::ptr::with_exposed_provenance_mut(at.start);
    // SAFETY: the slice is gone; the target is the caller's to replace.
    unsafe { mremap_fixed(new, len, len, MremapFlags::MAYMOVE, at).map(drop) }
}

/// Populates a mapped range, whole pages, as if by reading: for memory files the kernel then maps
/// many existing pages at once, in a third of the time that as many writes take, and later writes
/// to them need no further fault.
pub fn populate(start: usize, len: usize) {
    // SAFETY: populating changes no byte and no mapping; an unmapped address is an error of the
    // call, and after a failure the pages are faulted in one by one later.
    let _ = unsafe { madvise(start as *mut core::ffi::c_void, len, Advice::LinuxPopulateRead) };
}

/// Requests huge pages for a mapped range, where it contains them whole. Files of [`crate::huge`]
/// provide them; for others it depends on the administrator ([`huge_pages`]).
pub fn ask_huge(start: usize, len: usize) {
    // SAFETY: the advice changes no byte and no mapping; if it is refused, the pages are small.
    let _ = unsafe { madvise(start as *mut core::ffi::c_void, len, Advice::LinuxHugepage) };
}

/// Returns the kernel's setting for huge pages of `memfd`: `always`, `within_size`, `advise` (on
/// request), `never`, `deny` or `force`. None if the kernel does not support them.
pub fn huge_pages() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Returns the bytes of memory available to this process without swapping: those of the machine
/// (`MemAvailable`), within the limits of its control groups.
pub fn available() -> Option<u64> {
    least(meminfo("MemAvailable:"), |groups| groups.free)
}

/// Returns the machine's memory in bytes (`MemTotal`), or that of the control groups of this
/// process if they are limited to less.
pub fn total() -> Option<u64> {
    least(meminfo("MemTotal:"), |groups| groups.limit)
}

/// Returns the default heap size in bytes for each of `n_pes` PEs on this machine.
pub fn default_heap(n_pes: usize) -> u64 {
    let share = total().unwrap_or(1 << 32) / (2 * n_pes as u64);
    (share.min(1 << 30) >> 20 << 20).max(1 << 20)
}

fn least(machine: Option<u64>, of: impl Fn(cgroup::CgroupMemory) -> u64) -> Option<u64> {
    machine.into_iter().chain(cgroup::memory().map(of)).min()
}

fn meminfo(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns this process's proportional share of the memory it maps, in bytes: pages mapped by
/// several processes count by their share, so the sum over processes is the memory actually used.
pub fn proportional_share() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_pages_are_those_never_written() {
        let page = page_size();
        let file = Arc::new(create("holes", 96 * page).unwrap());
        for from in [0, 32 * page] {
            let part = Part::new(Arc::clone(&file), from, 64 * page);
            part.wipe().unwrap();
            assert_eq!(part.absent(0, 64 * page), 64 * page as u64);
            let map = part.map(0, 64 * page, None, true).unwrap();
            for nth in [3, 4, 60] {
                // SAFETY: inside the mapping, which no other code has.
                unsafe { map.base().add(nth * page + 5).write(1) };
            }
            for (from, len, pages) in [(0, 64, 61), (3, 2, 0), (2, 3, 1), (4, 4, 3), (60, 4, 3)] {
                let found = part.absent(from * page, len * page);
                assert_eq!(found, (pages * page) as u64, "{from} {len}");
            }
            assert_eq!(part.absent(4 * page + 100, page), 100);
            let mut byte = [0];
            part.read_at(60 * page + 5, &mut byte).unwrap();
            part.give_back(60 * page, page).unwrap();
            assert_eq!((byte, part.absent(60 * page, page)), ([1], page as u64));
            assert_eq!(part.read_at(64 * page, &mut byte), Err(Errno::NXIO));
        }
        let whole = Part::new(file, 0, 96 * page);
        assert_eq!(whole.absent(0, 32 * page), 30 * page as u64, "a part ends where it ends");
    }
}
