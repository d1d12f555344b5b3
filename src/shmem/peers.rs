//! Reaching other PEs: one-sided transfers, atomic updates and waiting, all inside an exchange.
//!
//! [`Peers`] exists only while [`Shmem::exchange`] runs its closure, and while it exists no PE
//! holds a reference to its symmetric memory; see the parent module for why that matters.
//!
//! Between a death and the restart writes are dropped, reads give zeroes, waiting ends with
//! [`Fault`], and the exchange itself ends with it. Nothing waits for a dead PE.
//!
//! Unsafe code: the calls of `bytes.rs` on checked ranges.

use super::atomic::{Integer, Word};
use super::bytes;
use super::root::{self, Meeting};
use super::{Fault, SymRef, SymSlice, Symmetric};
use crate::pgas::World;
use crate::segment::update::{self, Update};

/// All PEs, this one among them, during an exchange. It may be used by several threads.
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let ring = shmem.alloc::<u64>(2)?;
/// let (me, n) = (shmem.my_pe(), shmem.n_pes());
/// shmem.exchange(|peers| peers.write((me + 1) % n, ring.at(0), me as u64))?;
/// assert_eq!(shmem.local(ring)[0], ((me + n - 1) % n) as u64);
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[derive(Debug)]
pub struct Peers<'a> {
    world: &'a World,
}

impl<'a> Peers<'a> {
    pub(super) fn new(world: &'a World) -> Peers<'a> {
        Peers { world }
    }

    /// Number of this PE, from 0.
    pub fn my_pe(&self) -> usize {
        self.world.me()
    }

    /// Number of PEs.
    pub fn n_pes(&self) -> usize {
        self.world.n_pes()
    }

    /// True between a death and the restart: what is done now will be undone.
    pub fn faulted(&self) -> bool {
        self.world.faulted()
    }

    /// Where the elements of `slice` begin in the segment of `pe`, and here if it is mapped.
    ///
    /// # Panics
    /// If there is no such PE, or the handle names no symmetric memory.
    #[inline]
    fn place<T: Symmetric>(&self, pe: usize, slice: SymSlice<T>) -> (usize, *mut u8) {
        let n_pes = self.world.n_pes();
        assert!(pe < n_pes, "PE {pe}: allowed are 0..={}", n_pes - 1);
        let offset = slice.checked(self.world);
        (offset, self.world.base(pe).wrapping_add(offset))
    }

    /// Copies elements of `pe` to this PE's private memory. Zeroes between a death and the restart.
    ///
    /// # Panics
    /// If the lengths differ or there is no such PE.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc_from(&[1.5f64, 2.5, 3.5])?;
    /// let mut there = [0.0; 2];
    /// shmem.exchange(|peers| peers.get(0, cells.range(1..), &mut there))?;
    /// assert_eq!(there, [2.5, 3.5]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn get<T: Symmetric>(&self, pe: usize, from: SymSlice<T>, to: &mut [T]) {
        let (offset, place) = self.place(pe, from);
        assert!(from.len() == to.len(), "get of {} elements to {}", from.len(), to.len());
        if self.faulted() {
            to.fill(T::zeroed());
            return;
        }
        if self.world.is_far(pe) {
            return self.world.far_get(pe, offset, bytemuck::cast_slice_mut(to));
        }
        // SAFETY: `place` is checked for the length of `from`, which is that of `to`; `to` is
        // private, because a reference into symmetric memory would borrow `Shmem`, which the
        // exchange holds; and any bytes are a `T`.
        unsafe { bytes::copy(place, to.as_mut_ptr().cast(), from.bytes()) }
    }

    /// Copies private memory of this PE to elements of `pe`.
    ///
    /// It has arrived for everybody when the exchange ends, and for a PE that acquires an atomic
    /// written after [`Peers::fence`].
    ///
    /// # Panics
    /// If the lengths differ or there is no such PE.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc::<u8>(4)?;
    /// shmem.exchange(|peers| peers.put(0, cells.range(..3), b"abc"))?;
    /// assert_eq!(shmem.local(cells), b"abc\0");
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn put<T: Symmetric>(&self, pe: usize, to: SymSlice<T>, from: &[T]) {
        let (offset, place) = self.place(pe, to);
        assert!(from.len() == to.len(), "put of {} elements to {}", from.len(), to.len());
        if self.faulted() {
            return;
        }
        if self.world.is_far(pe) {
            return self.world.far_put(pe, offset, bytemuck::cast_slice(from));
        }
        // SAFETY: as in `get`, the other way round; a `T` has no padding, so all of it is bytes.
        unsafe { bytes::copy(from.as_ptr().cast(), place, to.bytes()) };
        self.world.ring(pe);
    }

    /// Reads one element of `pe`; zero between a death and the restart.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let point = shmem.alloc_one([1.0f32, 2.0])?;
    /// assert_eq!(shmem.exchange(|peers| peers.read(0, point))?, [1.0, 2.0]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn read<T: Symmetric>(&self, pe: usize, from: SymRef<T>) -> T {
        let mut value = [T::zeroed()];
        self.get(pe, from.as_slice(), &mut value);
        value[0]
    }

    /// Writes one element of `pe`; as [`Peers::put`].
    #[inline]
    pub fn write<T: Symmetric>(&self, pe: usize, to: SymRef<T>, value: T) {
        self.put(pe, to.as_slice(), &[value]);
    }

    /// Copies elements of `pe` to symmetric memory of this PE. Does nothing between a death and the
    /// restart.
    ///
    /// # Panics
    /// If the lengths differ, there is no such PE, or it is this one and the ranges overlap.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc_from(&[1i32, 2, 0, 0])?;
    /// shmem.exchange(|peers| peers.pull(0, cells.range(..2), cells.range(2..)))?;
    /// assert_eq!(shmem.local(cells), [1, 2, 1, 2]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn pull<T: Symmetric>(&self, pe: usize, from: SymSlice<T>, to: SymSlice<T>) {
        self.transfer((pe, from), (self.my_pe(), to));
    }

    /// Copies symmetric memory of this PE to elements of `pe`; otherwise as [`Peers::pull`].
    pub fn push<T: Symmetric>(&self, pe: usize, to: SymSlice<T>, from: SymSlice<T>) {
        self.transfer((self.my_pe(), from), (pe, to));
    }

    fn transfer<T: Symmetric>(&self, from: (usize, SymSlice<T>), to: (usize, SymSlice<T>)) {
        let ((at, source), (there, target)) = (self.place(from.0, from.1), self.place(to.0, to.1));
        let (read, written) = (from.1.len(), to.1.len());
        assert!(read == written, "transfer of {read} elements to {written}");
        assert!(from.0 != to.0 || !from.1.overlaps(to.1), "transfer between ranges that overlap");
        if self.faulted() {
            return;
        }
        if self.world.is_far(from.0) {
            let mut bytes = vec![0; from.1.bytes()];
            self.world.far_get(from.0, at, &mut bytes);
            // SAFETY: `target` is checked for as many bytes, and is this PE's.
            unsafe { bytes::copy(bytes.as_ptr(), target, bytes.len()) };
            return;
        }
        if self.world.is_far(to.0) {
            let mut bytes = vec![0; from.1.bytes()];
            // SAFETY: `source` is checked for as many bytes, and is this PE's.
            unsafe { bytes::copy(source, bytes.as_mut_ptr(), bytes.len()) };
            return self.world.far_put(to.0, there, &bytes);
        }
        // SAFETY: both places are checked for the one length, and do not overlap: they are on
        // different PEs, or were compared. No PE holds references during an exchange.
        unsafe { bytes::copy(source, target, from.1.bytes()) };
        self.world.ring(to.0);
    }

    /// Orders: puts before are seen before puts and atomic updates after, by any PE.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (data, flag) = (shmem.alloc::<f64>(8)?, shmem.alloc_one(0u32)?);
    /// let first = shmem.exchange(|peers| {
    ///     peers.put(0, data, &[1.0; 8]);
    ///     peers.fence();
    ///     peers.set(0, flag, 1);
    ///     peers.wait_until(flag, |flag| flag == 1)?; // on PE 0: the data is there
    ///     Ok::<f64, raidshmem::Fault>(peers.read(0, data.at(0)))
    /// })??;
    /// assert_eq!(first, 1.0);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn fence(&self) {
        self.world.fence();
    }

    /// Completes: what this PE has put is where it was put to when the call returns.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cell = shmem.alloc_one(0u8)?;
    /// shmem.exchange(|peers| {
    ///     peers.write(0, cell, 1);
    ///     peers.quiet();
    ///     assert_eq!(peers.read(0, cell), 1);
    /// })?;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn quiet(&self) {
        self.world.quiet();
    }

    /// Waits for all PEs inside the exchange, with `quiet` before. Collective.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let sum = shmem.alloc_one(0u64)?;
    /// let (me, n) = (shmem.my_pe() as u64, shmem.n_pes() as u64);
    /// let total = shmem.exchange(|peers| {
    ///     peers.fetch_add(0, sum, me);
    ///     peers.barrier()?;
    ///     Ok::<u64, raidshmem::Fault>(peers.fetch(0, sum))
    /// })??;
    /// assert_eq!(total, n * (n - 1) / 2);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn barrier(&self) -> Result<(), Fault> {
        self.world.quiet();
        root::pass(self.world, Meeting::Inside)
    }

    /// Blocks until `ready` accepts the value of this PE's own element, and gives that value.
    ///
    /// # Errors
    /// [`Fault`] if a PE is lost meanwhile.
    ///
    /// See [`Peers::fence`] for an example.
    pub fn wait_until<T: Word>(
        &self,
        own: SymRef<T>,
        mut ready: impl FnMut(T) -> bool,
    ) -> Result<T, Fault> {
        let mut value = self.fetch(self.my_pe(), own);
        if !ready(value) {
            let look = || {
                value = self.fetch(self.my_pe(), own);
                ready(value)
            };
            self.world.wait_until(look).map_err(|_| Fault::new())?;
        }
        Ok(value)
    }

    /// One atomic operation; zero, and nothing done, between a death and the restart.
    #[inline]
    fn update<T: Word>(&self, pe: usize, on: SymRef<T>, how: Update, operand: T) -> T {
        let (offset, place) = self.place(pe, on.as_slice());
        if self.faulted() {
            return T::zeroed();
        }
        let (bytes, operand) = (size_of::<T>(), operand.to_bits());
        if self.world.is_far(pe) {
            return T::from_bits(self.world.far_update(pe, offset, bytes, how, operand));
        }
        // SAFETY: a checked element of 4 or 8 bytes, aligned for `T`, which is as long as aligned;
        // inside an exchange shared memory is accessed by atomics only.
        let before = unsafe { update::apply(place, bytes, how, operand) };
        if !matches!(how, Update::Load) {
            self.world.ring(pe);
        }
        T::from_bits(before)
    }

    /// Reads an element atomically; what its writer put before a fence is seen afterwards.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let word = shmem.alloc_one(0.5f64)?;
    /// assert_eq!(shmem.exchange(|peers| peers.fetch(0, word))?, 0.5);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn fetch<T: Word>(&self, pe: usize, on: SymRef<T>) -> T {
        self.update(pe, on, Update::Load, T::zeroed())
    }

    /// Writes an element atomically.
    #[inline]
    pub fn set<T: Word>(&self, pe: usize, on: SymRef<T>, value: T) {
        self.update(pe, on, Update::Store, value);
    }

    /// Writes an element and gives what was there.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let word = shmem.alloc_one(1i32)?;
    /// assert_eq!(shmem.exchange(|peers| (peers.swap(0, word, 2), peers.fetch(0, word)))?, (1, 2));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn swap<T: Word>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::Swap, value)
    }

    /// Writes `value` if the element holds `expected`, and gives what was there.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let lock = shmem.alloc_one(0u64)?;
    /// let before = shmem.exchange(|peers| {
    ///     [peers.compare_swap(0, lock, 0, 7), peers.compare_swap(0, lock, 0, 8)]
    /// })?;
    /// assert_eq!(before, [0, 7]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn compare_swap<T: Integer>(&self, pe: usize, on: SymRef<T>, expected: T, value: T) -> T {
        self.update(pe, on, Update::CompareSwap(expected.to_bits()), value)
    }

    /// Adds, wrapping, and gives what was there.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let count = shmem.alloc_one(-1i64)?;
    /// assert_eq!(shmem.exchange(|peers| peers.fetch_add(0, count, 1))?, -1);
    /// assert_eq!(shmem.read(count), 0);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn fetch_add<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::Add, value)
    }

    /// Bitwise and; gives what was there.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let bits = shmem.alloc_one(0b1100u32)?;
    /// shmem.exchange(|peers| {
    ///     peers.fetch_and(0, bits, 0b0110);
    ///     peers.fetch_or(0, bits, 0b0001);
    ///     peers.fetch_xor(0, bits, 0b1111);
    /// })?;
    /// assert_eq!(shmem.read(bits), 0b1010);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn fetch_and<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::And, value)
    }

    /// Bitwise or; gives what was there. See [`Peers::fetch_and`].
    #[inline]
    pub fn fetch_or<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::Or, value)
    }

    /// Bitwise exclusive or; gives what was there. See [`Peers::fetch_and`].
    #[inline]
    pub fn fetch_xor<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::Xor, value)
    }
}
