//! Write tracking: the pages of a mapping written since the last scan, by this process's page
//! tables.
//!
//! The kernel's userfaultfd in asynchronous mode (Linux 6.7) write-protects pages; it records the
//! first write to one and lets it through, without involving this process. A scan (`PAGEMAP_SCAN`)
//! lists the written pages and protects them again, atomically for each page.
//!
//! It detects every write through this process's page tables: by its threads, by the kernel for its
//! system calls (`read`, `recv`), and by a debugger. It does not detect writes through another
//! mapping, by another process or a child of this one ([`crate::fork`]), and by a device to pages
//! that it holds.
//!
//! Invariant: a written page is listed, or the scan fails. A listed page may be unwritten: pages
//! whose page-table entries the kernel has reclaimed are listed as well.
//!
//! Cost: a fault at the first write to a page after each scan, and page-table entries for all
//! pages, including huge and untouched ones: 8 bytes each.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use linux_raw_sys::general::{
    PAGE_IS_HUGE, PAGE_IS_WRITTEN, PM_SCAN_CHECK_WPASYNC, PM_SCAN_WP_MATCHING, UFFD_API,
    UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_WP_ASYNC, UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
    UFFD_FEATURE_WP_UNPOPULATED, UFFD_USER_MODE_ONLY, page_region, pm_scan_arg, uffdio_api,
    uffdio_range, uffdio_register, uffdio_writeprotect,
};
use rustix::io::{Errno, Result};
use rustix::ioctl::opcode::{read, read_write};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// The ioctl group of userfaultfd (`linux/userfaultfd.h`), and its call numbers.
const UFFDIO: u8 = 0xaa;
const REGISTER: u8 = 0x00;
const UNREGISTER: u8 = 0x01;
const WRITEPROTECT: u8 = 0x06;
const API: u8 = 0x3f;
/// Modes of two of these calls.
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;
/// Number of page ranges fetched from the kernel at a time.
const REGIONS: usize = 512;

/// A set of tracked pages, which are restored to their former state on drop.
#[derive(Debug)]
pub struct Watch {
    faults: OwnedFd,
    pages: File,
    /// True if huge pages are split.
    cuts: bool,
    /// Ranges that were huge pages.
    huge: Vec<(usize, usize)>,
}

impl Watch {
    /// Creates an empty set, which rejects huge pages unless it `cuts` them, that is, splits them:
    /// each small page then faults at its first access, read or write. Other mappings of these
    /// pages keep their huge ones.
    ///
    /// # Errors
    /// The kernel is too old, or does not allow it.
    pub fn new(cuts: bool) -> Result<Watch> {
        let flags = UserfaultfdFlags::CLOEXEC
            | UserfaultfdFlags::NONBLOCK
            | UserfaultfdFlags::from_bits_retain(UFFD_USER_MODE_ONLY);
        // SAFETY: this descriptor never receives a fault: pages are registered for asynchronous
        // write protection alone, which the kernel resolves by itself.
        let faults = unsafe { userfaultfd(flags)? };
        let features = UFFD_FEATURE_PAGEFAULT_FLAG_WP
            | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
            | UFFD_FEATURE_WP_UNPOPULATED
            | UFFD_FEATURE_WP_ASYNC;
        let asked = u64::from(features);
        let mut api = uffdio_api { api: u64::from(UFFD_API), features: asked, ioctls: 0 };
        call(&faults, read_write::<uffdio_api>(UFFDIO, API), &mut api)?;
        let pages = File::open("/proc/self/pagemap")
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))?;
        let has_all = api.features & asked == asked;
        if has_all {
            Ok(Watch { faults, pages, cuts, huge: Vec::new() })
        } else {
            Err(Errno::OPNOTSUPP)
        }
    }

    /// Adds `len` bytes at `start`, whole pages of a mapping, as unwritten.
    ///
    /// # Errors
    /// An error of the kernel, or there are huge pages; nothing is then known of these pages.
    pub fn add(&mut self, start: usize, len: usize) -> Result<()> {
        let range = uffdio_range { start: start as u64, len: len as u64 };
        let mut register = uffdio_register { range, mode: REGISTER_MODE_WP, ioctls: 0 };
        call(&self.faults, read_write::<uffdio_register>(UFFDIO, REGISTER), &mut register)?;
        if register.ioctls & 1 << WRITEPROTECT == 0 {
            return Err(Errno::OPNOTSUPP);
        }
        // A scan protects the pages present, and atomically; but a huge page only as a whole, so
        // that its first write would mark all of it. Such pages are split into small ones.
        let mut huge = Vec::new();
        self.look(start, len, PAGE_IS_WRITTEN | PAGE_IS_HUGE, |region| {
            if region.categories & u64::from(PAGE_IS_HUGE) != 0 {
                huge.push(uffdio_range { start: region.start, len: region.end - region.start });
            }
        })?;
        if !huge.is_empty() && !self.cuts {
            return Err(Errno::NOTSUP);
        }
        let ends = |range: &uffdio_range| (range.start as usize, range.len as usize);
        self.huge.extend(huge.iter().map(ends));
        huge.into_iter().try_for_each(|range| {
            let mut protect = uffdio_writeprotect { range, mode: WRITEPROTECT_MODE_WP };
            let opcode = read_write::<uffdio_writeprotect>(UFFDIO, WRITEPROTECT);
            call(&self.faults, opcode, &mut protect).map(drop)
        })
    }

    /// Passes to `each` the addresses of pages in `[start, start + len)`, all of them tracked, that
    /// were written since they were added or last taken. They count as unwritten from now on.
    ///
    /// # Errors
    /// An error of the kernel; nothing is then known of these pages, whatever `each` received.
    pub fn take(&self, start: usize, len: usize, mut each: impl FnMut(Range<usize>)) -> Result<()> {
        // The kernel is fastest if no other category is requested.
        self.look(start, len, PAGE_IS_WRITTEN, |at| each(at.start as usize..at.end as usize))
    }

    /// Returns true if huge pages were split.
    pub fn has_cut(&self) -> bool {
        !self.huge.is_empty()
    }

    /// Protects written pages again, and passes them to `each` with those `categories` they have.
    fn look(
        &self,
        start: usize,
        len: usize,
        categories: u32,
        each: impl FnMut(&page_region),
    ) -> Result<()> {
        let flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC;
        scan(&self.pages, start..start + len, (flags, PAGE_IS_WRITTEN, categories), each)
    }
}

/// Returns the bytes of huge pages mapped in `range`, whole pages. None if the kernel cannot tell.
pub fn huge(range: Range<usize>) -> Option<usize> {
    let (pages, mut bytes) = (File::open("/proc/self/pagemap").ok()?, 0);
    let add = |region: &page_region| bytes += (region.end - region.start) as usize;
    scan(&pages, range, (0, PAGE_IS_HUGE, PAGE_IS_HUGE), add).ok()?;
    Some(bytes)
}

/// Passes to `each` the pages in `range` of a category, with those of the categories `shown`.
fn scan(
    pages: &File,
    range: Range<usize>,
    (flags, category, shown): (u32, u32, u32),
    mut each: impl FnMut(&page_region),
) -> Result<()> {
    let (mut at, end) = (range.start as u64, range.end as u64);
    let mut regions = [page_region { start: 0, end: 0, categories: 0 }; REGIONS];
    while at < end {
        let mut scan = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: u64::from(flags),
            start: at,
            end,
            walk_end: 0,
            vec: regions.as_mut_ptr().expose_provenance() as u64,
            vec_len: REGIONS as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: u64::from(category),
            category_anyof_mask: 0,
            return_mask: u64::from(shown),
        };
        let found = call(pages, read_write::<pm_scan_arg>(b'f', 16), &mut scan)?;
        let found = regions.get(..found as usize).ok_or(Errno::OVERFLOW)?;
        found.iter().for_each(&mut each);
        if scan.walk_end <= at || scan.walk_end > end {
            return Err(Errno::OVERFLOW); // the scan makes no progress
        }
        at = scan.walk_end;
    }
    Ok(())
}

impl Drop for Watch {
    fn drop(&mut self) {
        for &(start, len) in &self.huge {
            let mut range = uffdio_range { start: start as u64, len: len as u64 };
            let opcode = read::<uffdio_range>(UFFDIO, UNREGISTER);
            if call(&self.faults, opcode, &mut range).is_ok() {
                join(start, len);
            }
        }
    }
}

/// Restores huge pages. If the kernel refuses, they stay mapped as small ones.
fn join(start: usize, len: usize) {
    let at = start as *mut libc::c_void;
    // SAFETY: the advice changes no byte, and only how pages are mapped; for a range that is no
    // longer mapped it is an error.
    let _ = unsafe { libc::madvise(at, len, libc::MADV_COLLAPSE) };
}

/// Makes an ioctl call with a structure that it reads and writes, and returns its result.
fn call<T>(fd: &impl AsRawFd, opcode: rustix::ioctl::Opcode, value: &mut T) -> Result<u32> {
    // SAFETY: each opcode here is derived from the type of its structure, which is alive and has no
    // other reader; the one address inside such a structure is that of the caller's array, with its
    // length. No call changes a byte of the program's memory, or its mappings.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), opcode as _, std::ptr::from_mut(value)) };
    u32::try_from(done)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use raidshmem_core::page::HUGE;

    use super::*;
    use crate::memory::{Mapping, create};

    /// Page size of the kernels that these tests run on.
    const PAGE: usize = 4096;
    const PAGES: usize = 1024;

    /// Creates a memory file of `PAGES` pages, mapped once.
    fn mapped() -> (OwnedFd, Mapping) {
        let file = create("written", PAGES * PAGE).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, PAGES * PAGE, None, true).unwrap();
        (file, mapping)
    }

    fn poke(mapping: &Mapping, page: usize) {
        // SAFETY: inside the mapping, which has no other user.
        unsafe { mapping.base().add(page * PAGE + 7).write_volatile(1) };
    }

    fn taken(watch: &Watch, mapping: &Mapping) -> Vec<usize> {
        let (start, mut pages) = (mapping.base() as usize, Vec::new());
        watch
            .take(start, mapping.len(), |range| {
                pages.extend(((range.start - start) / PAGE)..((range.end - start) / PAGE))
            })
            .unwrap();
        pages
    }

    /// Returns a watch, or prints why this machine has none.
    fn watch() -> Option<Watch> {
        let skip = |error: &_| crate::skip("page-watch", &format!("no pages are watched: {error}"));
        Watch::new(true).inspect_err(skip).ok()
    }

    fn watched(mapping: &Mapping) -> Option<Watch> {
        let mut watch = watch()?;
        watch.add(mapping.base() as usize, mapping.len()).unwrap();
        Some(watch)
    }

    #[test]
    fn written_pages_are_reported_once() {
        let (_file, mapping) = mapped();
        (0..PAGES / 2).for_each(|page| poke(&mapping, page)); // half of the pages are present
        let Some(watch) = watched(&mapping) else { return };
        assert_eq!(taken(&watch, &mapping), []);
        for step in [1, 3, 7, 64, 700] {
            let pages: Vec<usize> = (0..PAGES).step_by(step).collect();
            pages.iter().for_each(|&page| poke(&mapping, page));
            assert_eq!(taken(&watch, &mapping), pages);
            assert_eq!(taken(&watch, &mapping), []);
        }
    }

    #[test]
    fn reading_is_no_writing() {
        let (_file, mapping) = mapped();
        let Some(watch) = watched(&mapping) else { return };
        for page in 0..PAGES {
            // SAFETY: inside the mapping.
            unsafe { mapping.base().add(page * PAGE).read_volatile() };
        }
        assert_eq!(taken(&watch, &mapping), []);
    }

    #[test]
    fn writes_by_the_kernel_and_by_threads_are_detected() {
        let (file, mapping) = mapped();
        let Some(watch) = watched(&mapping) else { return };
        let (at, other) = (mapping.base() as usize, create("other", 3 * PAGE).unwrap());
        // SAFETY: inside the mapping, which has no other user.
        let bytes = unsafe { std::slice::from_raw_parts_mut((at + 5 * PAGE) as *mut u8, 2 * PAGE) };
        crate::memory::read_at(&other, 0, bytes).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| poke(&mapping, 900));
        });
        assert_eq!(taken(&watch, &mapping), [5, 6, 900]);
        drop(file);
    }

    /// Pages that the kernel dropped from the page table are listed if they were written.
    #[test]
    fn unmapped_pages_are_not_forgotten() {
        use rustix::mm::{Advice, madvise};
        let (_file, mapping) = mapped();
        (0..PAGES).for_each(|page| poke(&mapping, page));
        let Some(watch) = watched(&mapping) else { return };
        poke(&mapping, 3);
        poke(&mapping, 800);
        // SAFETY: for a shared mapping this drops page-table entries, and no byte.
        unsafe { madvise(mapping.base().cast(), mapping.len(), Advice::LinuxDontNeed).unwrap() };
        let pages = taken(&watch, &mapping);
        assert!(pages.contains(&3) && pages.contains(&800), "{pages:?}");
    }

    #[test]
    fn huge_pages_are_watched_by_small_ones() {
        const LEN: usize = 2 * HUGE;
        let file = create("written", LEN).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, LEN, None, true).unwrap();
        let (start, pages) = (mapping.base() as usize, LEN / PAGE);
        (0..pages).for_each(|page| poke(&mapping, page));
        // SAFETY: turns small pages into huge ones, without a change of their contents. If that
        // fails they are tracked as they are.
        let huge = unsafe { libc::madvise(mapping.base().cast(), LEN, libc::MADV_COLLAPSE) } == 0;
        eprintln!("note: huge pages: {huge}");
        let all = super::huge(start..start + LEN);
        assert!(all.is_none_or(|bytes| bytes == if huge { LEN } else { 0 }), "{all:?}");
        if let Ok(mut refuses) = Watch::new(false) {
            assert_eq!(refuses.add(start, LEN).is_err(), huge);
        }
        let Some(mut watch) = watched(&mapping) else { return };
        assert_eq!((watch.has_cut(), taken(&watch, &mapping)), (huge, vec![]));
        poke(&mapping, 700);
        assert_eq!(taken(&watch, &mapping), [700]);
        // A second mapping of these pages, never touched: its pages are not known to be unwritten.
        let other = Mapping::new(file.as_fd(), 0, LEN, None, true).unwrap();
        watch.add(other.base() as usize, LEN).unwrap();
        poke(&other, 900);
        assert!(taken(&watch, &other).contains(&900));
        assert!(!taken(&watch, &mapping).contains(&3));
        poke(&other, 3);
        assert_eq!(taken(&watch, &other), [3]);
        assert!(start.is_multiple_of(HUGE));
    }

    #[test]
    fn an_unwatched_range_is_an_error() {
        let (_file, mapping) = mapped();
        let Some(mut watch) = watch() else { return };
        let start = mapping.base() as usize;
        assert!(watch.take(start, PAGE, |_| ()).is_err());
        watch.add(start, PAGE).unwrap();
        watch.take(start, PAGE, |_| ()).unwrap();
        assert!(watch.take(start, 2 * PAGE, |_| ()).is_err());
        assert!(watch.add(start + 1, PAGE).is_err());
        // A second watch cannot track pages of this one.
        assert!(Watch::new(true).unwrap().add(start, PAGE).is_err());
    }

    #[test]
    fn a_watch_that_is_dropped_leaves_nothing() {
        let (_file, mapping) = mapped();
        for page in [0, 9] {
            let Some(watch) = watched(&mapping) else { return };
            assert_eq!(taken(&watch, &mapping), []);
            poke(&mapping, page);
            assert_eq!(taken(&watch, &mapping), [page]);
        }
    }
}
