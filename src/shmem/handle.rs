//! Handles of symmetric memory, and the types that may be kept there.
//!
//! A handle is an offset in the symmetric heap and a number of elements. It is plain old data, so
//! it may itself be kept in symmetric memory, and it has the same meaning in every PE and in a
//! substitute. It owns nothing: like an index into an arena it gives access only together with the
//! arena, which is [`Shmem`](super::Shmem) for a PE's own memory and [`Peers`](super::Peers) for
//! that of other PEs.
//!
//! Invariant: a handle is never trusted. Any bytes are a handle (a program may have put them
//! there), so each use checks that the range is in the heap, behind the library's own block, and
//! aligned. A handle of freed memory is therefore wrong but harmless: it names other plain data.
//!
//! Unsafe code: the two `Pod` impls; the derive does not take generic types.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};

use bytemuck::{Pod, Zeroable};
use raidshmem_core::page::PAGE;

use super::root::ROOT_BYTES;
use raidshmem_runtime::pgas::World;

/// Plain old data that may lie in symmetric memory: every bit pattern is a valid value, there is no
/// padding, no pointer, and a copy of the bytes is a copy of the value.
///
/// Every [`bytemuck::Pod`] qualifies: integers, floats, arrays of them, handles, and structs that
/// derive it. The derive checks a struct's fields and rejects padding, so no `unsafe` is needed; a
/// type that cannot derive `Pod` implements it by hand, with this safety contract.
///
/// ```
/// use raidshmem::{SymSlice, Symmetric};
/// use raidshmem::bytemuck::{Pod, Zeroable};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[bytemuck(crate = "raidshmem::bytemuck")]
/// struct Field {
///     cells: SymSlice<f64>,
///     steps: u64,
/// }
///
/// fn may_be_shared<T: Symmetric>() {}
/// may_be_shared::<Field>();
/// ```
pub trait Symmetric: Pod {}

impl<T: Pod> Symmetric for T {}

/// A slice of symmetric memory, at the same place on every PE.
///
/// Allocated by [`Shmem::alloc`](super::Shmem::alloc). `Copy`, and itself [`Symmetric`]: if it is
/// kept in the program's state, a substitute finds it there.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let cells = shmem.alloc::<u32>(100)?;
/// let middle = cells.range(40..60);
/// assert_eq!((middle.len(), middle.range(..5).len()), (20, 5));
/// shmem.local_mut(middle)[0] = 7;
/// assert_eq!(shmem.local(cells)[40], 7);
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[repr(C)]
pub struct SymSlice<T> {
    /// Bytes from the start of the symmetric heap.
    offset: u64,
    /// Number of elements.
    len: u64,
    element: PhantomData<T>,
}

/// One element of symmetric memory: a counter, a flag, the state of a program.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let counter = shmem.alloc_one(5u64)?;
/// shmem.write(counter, shmem.read(counter) + 1);
/// assert_eq!(shmem.local(counter.as_slice()), [6]);
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[repr(transparent)]
pub struct SymRef<T> {
    one: SymSlice<T>,
}

impl<T> Clone for SymSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SymSlice<T> {}

impl<T> Clone for SymRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SymRef<T> {}

// SAFETY: two words of zeroes are a handle, the one that names nothing.
unsafe impl<T: Symmetric> Zeroable for SymSlice<T> {}
// SAFETY: two u64 and nothing else (`repr(C)`, no padding), `Copy`, and every bit pattern is a
// handle, because every use of one checks it; `T: Pod` makes it `'static`.
unsafe impl<T: Symmetric> Pod for SymSlice<T> {}
// SAFETY: like the slice that it is made of.
unsafe impl<T: Symmetric> Zeroable for SymRef<T> {}
// SAFETY: like the slice that it is made of (`repr(transparent)`).
unsafe impl<T: Symmetric> Pod for SymRef<T> {}

impl<T> fmt::Debug for SymSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, at, len) = (std::any::type_name::<T>(), self.offset, self.len);
        write!(f, "SymSlice<{name}>({len} at {at:#x})")
    }
}

impl<T> fmt::Debug for SymRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SymRef<{}>({:#x})", std::any::type_name::<T>(), self.one.offset)
    }
}

impl<T> SymSlice<T> {
    pub(super) fn new(offset: usize, len: usize) -> SymSlice<T> {
        SymSlice { offset: offset as u64, len: len as u64, element: PhantomData }
    }

    /// Returns the words that are kept in the root block.
    pub(super) fn words(self) -> [u64; 2] {
        [self.offset, self.len]
    }

    /// Rebuilds a handle from its words in the root block.
    pub(super) fn of_words([offset, len]: [u64; 2]) -> SymSlice<T> {
        SymSlice { offset, len, element: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Returns true if it has no elements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns a subslice; `range` is in elements.
    ///
    /// # Panics
    /// If the range is not inside, as when indexing a slice.
    pub fn range(self, range: impl RangeBounds<usize>) -> SymSlice<T> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        let len = self.len();
        assert!(start <= end && end <= len, "range {start}..{end} of symmetric memory of {len}");
        // A forged handle may wrap here; it is checked on use.
        let bytes = start.wrapping_mul(size_of::<T>()) as u64;
        SymSlice { offset: self.offset.wrapping_add(bytes), len: (end - start) as u64, ..self }
    }

    /// Returns the handle of element `index`.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn at(self, index: usize) -> SymRef<T> {
        let len = self.len();
        assert!(index < len, "element {index} of symmetric memory of {len}");
        SymRef { one: self.range(index..index + 1) }
    }
}

impl<T> SymRef<T> {
    /// Returns the element as a slice of length one.
    pub fn as_slice(self) -> SymSlice<T> {
        // The length of a forged handle may be anything.
        SymSlice { len: 1, ..self.one }
    }
}

impl<T: Symmetric> SymSlice<T> {
    /// Returns the byte range in the heap, checked against the heap's length.
    fn in_heap(self, heap_bytes: usize) -> Result<Range<usize>, Stray> {
        const { assert!(size_of::<T>() != 0, "symmetric memory holds no types of size 0") };
        const { assert!(align_of::<T>() <= PAGE, "alignment above a page is not symmetric") };
        let stray = Stray { offset: self.offset, len: self.len, heap_bytes };
        let bytes = self.len.checked_mul(size_of::<T>() as u64).ok_or(stray)?;
        let end = self.offset.checked_add(bytes).ok_or(stray)?;
        let aligned = self.offset.is_multiple_of(align_of::<T>() as u64);
        if !aligned || self.offset < ROOT_BYTES as u64 || end > heap_bytes as u64 {
            return Err(stray);
        }
        Ok(self.offset as usize..end as usize) // fits: not more than `heap_bytes`
    }

    /// Returns the offset of the first element in a segment; the whole range is inside the heap and
    /// aligned.
    #[inline]
    pub(super) fn checked(self, world: &World) -> usize {
        match self.in_heap(world.segments.layout().heap_len) {
            Ok(range) => world.segments.layout().heap + range.start,
            Err(stray) => panic!("{stray}"),
        }
    }

    /// Returns the size of all elements in bytes.
    pub(super) fn bytes(self) -> usize {
        self.len() * size_of::<T>()
    }

    /// Returns true if the two share a byte.
    pub(super) fn overlaps<U: Symmetric>(self, other: SymSlice<U>) -> bool {
        let (start, other_start) = (self.offset as usize, other.offset as usize);
        let (end, other_end) = (start + self.bytes(), other_start + other.bytes());
        start < other_end && other_start < end && !self.is_empty() && !other.is_empty()
    }
}

/// A handle that names no symmetric memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a handle of {len} elements at {offset:#x} names no symmetric memory (of {heap_bytes:#x} \
     bytes); was it set before it was used?"
)]
struct Stray {
    offset: u64,
    len: u64,
    heap_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAP: usize = 1 << 20;

    #[test]
    fn ranges_are_of_elements_and_inside() {
        let slice = SymSlice::<f64>::new(4096, 100);
        assert_eq!(slice.in_heap(HEAP), Ok(4096..4896));
        assert_eq!(slice.range(10..20).in_heap(HEAP), Ok(4176..4256));
        assert_eq!(slice.range(..).words(), slice.words());
        assert_eq!(slice.range(100..).len(), 0);
        assert_eq!(slice.range(..=9).range(9..).words(), slice.at(9).as_slice().words());
        for bad in [0..101, 101..101] {
            assert!(std::panic::catch_unwind(|| slice.range(bad)).is_err());
        }
        assert!(std::panic::catch_unwind(|| slice.at(100)).is_err());
    }

    #[test]
    fn forged_handles_are_refused() {
        let last = HEAP as u64 - 8;
        assert!(SymSlice::<u64>::of_words([last, 1]).in_heap(HEAP).is_ok());
        for words in [
            [0, 0], // never set
            [0, 1], // the library's own block
            [ROOT_BYTES as u64 - 8, 1],
            [ROOT_BYTES as u64 + 4, 1], // not aligned
            [last, 2],
            [HEAP as u64 + 8, 0],
            [u64::MAX - 7, 2],
            [4096, u64::MAX / 8 + 1],
        ] {
            assert!(SymSlice::<u64>::of_words(words).in_heap(HEAP).is_err(), "{words:x?}");
            let inside =
                SymSlice::<u64>::of_words([u64::MAX - 7, u64::MAX]).range(words[1] as usize..);
            assert!(inside.in_heap(HEAP).is_err(), "{words:x?}");
        }
    }

    #[test]
    fn overlap_is_a_common_byte() {
        let all = SymSlice::<u32>::new(4096, 16);
        assert!(all.overlaps(all.range(15..)));
        assert!(!all.range(..8).overlaps(all.range(8..)));
        assert!(!all.overlaps(all.range(8..8)));
        assert!(SymSlice::<u8>::new(4097, 1).overlaps(all));
    }

    #[test]
    fn a_handle_is_plain_data() {
        let slices = [SymSlice::<u16>::new(4096, 3), SymSlice::new(8192, 4)];
        let words: [u64; 4] = bytemuck::cast(slices);
        assert_eq!(words, [4096, 3, 8192, 4]);
        let element: SymRef<u16> = bytemuck::cast([4096u64, 77]);
        assert_eq!(element.as_slice().len(), 1);
    }
}
