//! The executable's statics (`.data` and `.bss`) as symmetric memory.
//!
//! OpenSHMEM 1.5, section 3 (memory model) makes global and static variables symmetric objects.
//! They lie in the writable part of the executable, among words with other owners:
//!
//! ```text
//!  writable PT_LOAD(s) of the executable
//! | .dynamic .got ... (RELRO) | .got.plt | .data           | .bss               |
//!                             ^ start      ^ user's          ^ user's   ^ stdout ^ start + len
//!                               excluded: written by the loader         excluded: of libc
//! ```
//!
//! [`find`] returns whole pages, from the end of the part that the loader makes read-only (RELRO)
//! to the end of `.bss`, and the ranges inside that must be neither saved nor restored: targets of
//! copy relocations, which are the only instance of a *library's* variable (`stdout`, `environ`,
//! `std::cout`), and every word that the loader itself fills in (GOT, lazily bound or not, and
//! `.dynamic`). Restoring them in a substitute would overwrite libc's own state there.
//!
//! The pages need not be contiguous: linkers begin another segment before a variable whose
//! alignment is more than a page, and `lld` and `mold` one behind RELRO. The gap between two pieces
//! is excluded and never replaced.
//!
//! The other readable segments, and RELRO, hold the program's *constants*. They are symmetric, too:
//! every PE runs the same executable, so its own bytes are those of any other PE.
//!
//! Only an executable that itself names `libraidshmem.so*` in `DT_NEEDED` has statics in this
//! sense; for all others [`find`] returns `None`. In a Python interpreter that loads the library
//! the writable part is the interpreter's own, and in a Rust program that links it statically it is
//! full of this library's and the standard library's state: the lock, the sockets and the threads
//! of *this* process. Rolling that back would be fatal, and no user asked for it.
//!
//! Invariants: `start`, `len` and the pieces are multiples of the page size; every page of a piece
//! is inside writable segments of the executable and outside RELRO; the pieces, and `excluded`, are
//! sorted, disjoint, not empty ranges, all inside. A constant is in no piece.
//!
//! Left out: statics of shared libraries, thread-local variables (not symmetric), and pointers into
//! libraries that the program keeps in its own variables: they are saved as plain data, and are
//! valid in a substitute because it has the same addresses.
//!
//! Unsafe code: reading the loader's list of objects, and the tables of the running executable at
//! addresses checked against its segments. Their interpretation is safe code, in `elf`.

use std::ffi::{c_int, c_void};
use std::ops::Range;

pub mod elf;
mod error;
#[cfg(test)]
mod tests;

use elf::{Dynamic, Executable, ExecutableMemory, Machine, ProgramHeader};
pub use error::StaticsError;
use raidshmem_sys::memory;

/// The library that an executable must name for its statics to be symmetric.
const LIBRARY: &str = "libraidshmem.so";

/// The location of the executable's statics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statics {
    /// Address of the first byte, a multiple of the page size.
    pub start: usize,
    /// Length in bytes, a multiple of the page size, not 0.
    pub len: usize,
    /// The pages inside that are the program's, sorted and disjoint.
    pub pieces: Vec<Range<usize>>,
    /// Addresses inside that are not the program's, sorted and disjoint.
    pub excluded: Vec<Range<usize>>,
    /// Memory that the program can only read, sorted and disjoint.
    pub constants: Vec<Range<usize>>,
}

impl Statics {
    /// Returns the offset of `[addr, addr + len)` from the first byte, if it lies in one piece.
    #[inline]
    pub fn offset_of(&self, addr: usize, len: usize) -> Option<usize> {
        let inside = holds(&self.pieces, addr, len);
        inside.then(|| addr - self.start)
    }

    /// Returns a piece as offsets from the first byte.
    pub fn offsets(&self, piece: &Range<usize>) -> Range<usize> {
        piece.start - self.start..piece.end - self.start
    }

    /// Returns the ranges that are the program's, as offsets if the first byte is at `at`.
    pub fn ranges(&self, at: usize) -> Vec<Range<usize>> {
        let offset = |addr: usize| addr - self.start + at;
        let (mut ranges, mut from) = (Vec::new(), self.start);
        for hole in &self.excluded {
            ranges.push(offset(from)..offset(hole.start));
            from = hole.end;
        }
        ranges.push(offset(from)..offset(self.start + self.len));
        ranges
    }

    /// Returns true if the program can only read `[addr, addr + len)`.
    pub fn is_constant(&self, addr: usize, len: usize) -> bool {
        holds(&self.constants, addr, len)
    }
}

/// Returns true if `[addr, addr + len)` lies in one of the ranges.
#[inline]
fn holds(ranges: &[Range<usize>], addr: usize, len: usize) -> bool {
    let inside = |r: &Range<usize>| r.contains(&addr) && len <= r.end - addr;
    ranges.iter().any(inside)
}

impl Statics {
    /// Excludes these addresses, too.
    pub fn leave_out(&mut self, ranges: Vec<Range<usize>>) {
        let (start, end) = (self.start, self.start + self.len);
        let clip = |range: Range<usize>| range.start.max(start)..range.end.min(end);
        let more = ranges.into_iter().map(clip);
        self.excluded = merge(self.excluded.drain(..).chain(more).collect());
    }
}

/// Finds the running executable's statics; `None` if it has none, or is not an executable whose
/// statics are symmetric (see the module doc).
///
/// # Errors
/// The executable's own headers contradict each other.
pub fn find() -> Result<Option<Statics>, StaticsError> {
    let own = Own::listed().ok_or(StaticsError::NoExecutable)?;
    find_in(&own.headers, own.bias, &own, Machine::HERE, memory::page_size())
}

/// Like [`find`], for any executable: its program headers, its load bias, its memory.
fn find_in(
    headers: &[ProgramHeader],
    bias: usize,
    memory: &impl ExecutableMemory,
    machine: Machine,
    page: usize,
) -> Result<Option<Statics>, StaticsError> {
    let Some(dynamic) = Dynamic::read(headers, bias, memory)? else { return Ok(None) };
    if !dynamic.needed()?.iter().any(|name| is_library(name)) {
        return Ok(None);
    }
    let foreign = dynamic.foreign(machine)?;
    Ok(select(&Executable::new(headers, foreign), page))
}

/// Returns true for `libraidshmem.so` and `libraidshmem.so.<version>`, with or without a directory.
fn is_library(needed: &str) -> bool {
    let file = needed.rsplit('/').next().unwrap_or(needed);
    file.strip_prefix(LIBRARY).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Selects the pages, and clips the foreign ranges to them.
pub fn select(executable: &Executable, page: usize) -> Option<Statics> {
    let down = |address: usize| address - address % page;
    let up = |address: usize| down(address.saturating_add(page - 1));
    let relro = executable.relro.clone().unwrap_or(0..0);
    // The loader protects whole pages only, and rounds the end down. The remainder of RELRO stays
    // writable, but is not the program's.
    let protected = down(relro.start)..down(relro.end);
    let mut pieces = Vec::new();
    for load in &executable.writable {
        let pages = down(load.start)..up(load.end);
        pieces.push(pages.start..pages.end.min(protected.start.max(pages.start)));
        pieces.push(pages.start.max(protected.end)..pages.end);
    }
    let pieces = merge(pieces);
    let (start, end) = (pieces.first()?.start, pieces.last()?.end);
    let gaps = pieces.windows(2).map(|pair| pair[0].end..pair[1].start);
    let clip = |r: &Range<usize>| r.start.max(start)..r.end.min(end);
    let excluded = executable.foreign.iter().chain([&relro]).map(clip).chain(gaps);
    let excluded = merge(excluded.collect());
    let constants = executable.readonly.iter().chain([&protected]).cloned();
    let constants = merge(constants.collect());
    Some(Statics { start, len: end - start, pieces, excluded, constants })
}

/// Returns the union of ranges: sorted, disjoint, none empty, none touching.
fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|r| !r.is_empty());
    ranges.sort_by_key(|r| (r.start, r.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// The running executable as the loader lists it.
struct Own {
    /// Program headers, with addresses as they are in memory.
    headers: Vec<ProgramHeader>,
    /// Displacement of addresses in memory against those in the file.
    bias: usize,
}

impl Own {
    /// Asks the loader. Its list begins with the executable (dl_iterate_phdr(3)), even if the
    /// program was started as an argument of the loader, in which case `AT_PHDR` may be the
    /// loader's.
    fn listed() -> Option<Own> {
        let mut own: Option<Own> = None;
        // SAFETY: `first_object` has the required signature and does not unwind; the pointer passed
        // to it is that of `own`, which outlives the call and is not used otherwise.
        unsafe { libc::dl_iterate_phdr(Some(first_object), (&raw mut own).cast()) };
        own
    }
}

/// Copies the first object of the loader's list to the `Option<Own>` at `data`, and stops.
///
/// # Safety
/// Must be called by `dl_iterate_phdr` only, with `data` pointing to an `Option<Own>` that is not
/// otherwise used in the meantime.
unsafe extern "C" fn first_object(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    data: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description, which does not change during the call.
    let info = unsafe { &*info };
    let headers = if info.dlpi_phdr.is_null() {
        &[]
    } else {
        // SAFETY: the description guarantees that many headers there; they are mapped with the
        // object, aligned by the ELF format and not written.
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
    };
    let bias = info.dlpi_addr as usize;
    let headers = headers
        .iter()
        .map(|h| ProgramHeader {
            kind: h.p_type,
            flags: h.p_flags,
            address: bias.wrapping_add(h.p_vaddr as usize),
            len: h.p_memsz as usize,
        })
        .collect();
    // SAFETY: by this function's contract, `data` is an exclusive pointer to an `Option<Own>`.
    let own = unsafe { &mut *data.cast::<Option<Own>>() };
    *own = Some(Own { headers, bias });
    1
}

impl ExecutableMemory for Own {
    fn read(&self, address: usize, len: usize) -> Option<Vec<u8>> {
        let end = address.checked_add(len)?;
        let inside =
            |h: &ProgramHeader| h.is_readable() && h.range().contains_range(&(address..end));
        if !self.headers.iter().any(inside) {
            return None;
        }
        let mut bytes = vec![0u8; len];
        // SAFETY: the source lies inside one readable segment of the executable, which the loader
        // mapped and never unmaps, and the target in a new vector of that length. The tables that
        // are read (dynamic section, strings, symbols, relocations) are not written after start-up,
        // so the copy races with no writer.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(address),
                bytes.as_mut_ptr(),
                len,
            )
        };
        Some(bytes)
    }
}

/// Containment of one range in another.
trait ContainsRange {
    fn contains_range(&self, inner: &Range<usize>) -> bool;
}

impl ContainsRange for Range<usize> {
    fn contains_range(&self, inner: &Range<usize>) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }
}
