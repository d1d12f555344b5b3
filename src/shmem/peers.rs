//! Access to other PEs: one-sided transfers, atomic updates and waiting, all inside an exchange.
//!
//! [`Peers`] exists only while [`Shmem::exchange`] runs its closure, and while it exists no PE of
//! its team holds a reference to its symmetric memory; the parent module explains why that matters.
//! Here handles become checked addresses, and PEs of a team become PEs of the world; the model does
//! the rest (`openshmem/memory`).
//!
//! Between a death and the restart writes are dropped, reads return zeroes, and waits and the
//! exchange itself end with [`Fault`]. No call waits for a dead PE.
//!
//! [`Shmem::exchange`]: super::Shmem::exchange

use raidshmem_core::update::Update;
use raidshmem_runtime::pgas::World;
use raidshmem_runtime::pgas::stream::{Id, Target};

use super::atomic::{Integer, Word};
use super::team::Team;
use super::{Fault, SymRef, SymSlice, Symmetric};
use crate::openshmem::collective;
use crate::openshmem::group::Group;
use crate::openshmem::memory::address::{Out, Sym, SymIn};
use crate::openshmem::memory::atomic;
use crate::openshmem::memory::elements::{get_elements, get_slice, put_elements, put_slice};
use crate::openshmem::order;
use crate::openshmem::team::{index_of, to_world};

/// The PEs of a team, including this one, during an exchange. They are counted from 0 in the order
/// of the team. Several threads may use it; collectives only one at a time.
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
    team: Team,
    /// The stream that completes its transfers.
    stream: Id,
    /// True if transfers may complete after their call returns: their buffers are kept until then.
    later: bool,
}

impl<'a> Peers<'a> {
    /// Returns the PEs of a team of which this PE is a member.
    pub(super) fn new(world: &'a World, team: Team) -> Peers<'a> {
        Peers { world, team, stream: 0, later: false }
    }

    /// Returns these PEs, accessed through a stream of their own.
    pub(super) fn through(&self, stream: Id, later: bool) -> Peers<'a> {
        Peers { world: self.world, team: self.team, stream, later }
    }

    pub(super) fn world(&self) -> &'a World {
        self.world
    }

    /// Returns the team for a collective.
    pub(super) fn group(&self, call: &'static str) -> Group {
        self.team.group(call)
    }

    /// Returns the team.
    pub fn team(&self) -> Team {
        self.team
    }

    /// Returns the number of this PE in the team, from 0.
    pub fn my_pe(&self) -> usize {
        self.group("Peers::my_pe").index
    }

    /// Returns the number of PEs in the team.
    pub fn n_pes(&self) -> usize {
        self.team.members().2
    }

    /// Returns true between a death and the restart, which will undo current work. With
    /// `SHMEM_FT_ROLLBACK=none` nothing is undone, and the restart is the acknowledgement.
    pub fn faulted(&self) -> bool {
        self.world.loss_response().is_faulted()
    }

    /// Returns the PEs of another team inside this exchange.
    ///
    /// # Panics
    /// If this PE is not a member of `team`, or `team` has PEs that are not in this one.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let row = shmem.split_strided(shmem.team_world(), 0, 1, 1)?.expect("PE 0 is in it");
    /// let sum = shmem.exchange(|peers| peers.of(row).reduce(2, |a, b| a + b))??;
    /// assert_eq!(sum, 2);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn of(&self, team: Team) -> Peers<'_> {
        let (_, _, size) = team.members();
        let inside = |pe: i32| {
            let pe = to_world(team.number(), pe);
            pe.is_some_and(|pe| index_of(self.team.number(), pe) >= 0)
        };
        assert!((0..size as i32).all(inside), "{team:?} has PEs that are not in this exchange");
        team.group("Peers::of"); // panics for a PE that is not a member
        Peers { team, ..self.through(self.stream, false) }
    }

    /// Translates PE `pe` of the team to a PE of the world, with the stream of operations on it.
    ///
    /// # Panics
    /// If the PE does not exist.
    #[inline]
    pub(super) fn pe(&self, pe: usize) -> Target {
        let (start, stride, size) = self.team.members();
        assert!(pe < size, "PE {pe}: expected 0..={}", size - 1);
        let pe = match self.world.shrinks() {
            false => (start + stride * pe.cast_signed()) as i32,
            true => {
                let in_world = to_world(self.team.number(), pe as i32);
                in_world.expect("a PE of a team is one of the world").0.cast_signed()
            }
        };
        Target { pe, stream: self.stream, later: self.later }
    }

    /// Returns symmetric memory as the model takes it.
    ///
    /// # Panics
    /// If the handle names no symmetric memory.
    #[inline]
    pub(super) fn at<T: Symmetric>(&self, slice: SymSlice<T>) -> Sym<u8> {
        Sym::at(self.world.segments.own().base() as usize + slice.checked(self.world))
    }

    /// Returns read-only symmetric memory as the model takes it.
    #[inline]
    pub(super) fn from<T: Symmetric>(&self, slice: SymSlice<T>) -> SymIn<u8> {
        SymIn::at(self.world.segments.own().base() as usize + slice.checked(self.world))
    }

    /// Copies elements of `pe` to this PE's private memory. Zeroes between a death and the restart.
    ///
    /// # Panics
    /// If the lengths differ or the PE does not exist.
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
        let (pe, source) = (self.pe(pe), self.from(from));
        assert!(from.len() == to.len(), "get of {} elements to {}", from.len(), to.len());
        get_slice("Peers::get", bytemuck::cast_slice_mut::<T, u8>(to), source, pe);
    }

    /// Copies private memory of this PE to elements of `pe`.
    ///
    /// The data is visible to all PEs when the exchange ends, and to a PE that acquires an atomic
    /// written after [`Peers::fence`].
    ///
    /// # Panics
    /// If the lengths differ or the PE does not exist.
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
        let (pe, dest) = (self.pe(pe), self.at(to));
        assert!(from.len() == to.len(), "put of {} elements to {}", from.len(), to.len());
        put_slice("Peers::put", dest, bytemuck::cast_slice::<T, u8>(from), pe);
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

    /// Writes one element of `pe`, like [`Peers::put`].
    #[inline]
    pub fn write<T: Symmetric>(&self, pe: usize, to: SymRef<T>, value: T) {
        self.put(pe, to.as_slice(), &[value]);
    }

    /// Copies elements of `pe` to symmetric memory of this PE. Does nothing between a death and the
    /// restart.
    ///
    /// # Panics
    /// If the lengths differ or the PE does not exist.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc_from(&[1i32, 2, 0, 0])?;
    /// shmem.exchange(|peers| peers.pull(0, cells.range(..2), cells.range(2..)))?;
    /// assert_eq!(shmem.local(cells), [1, 2, 1, 2]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn pull<T: Symmetric>(&self, pe: usize, from: SymSlice<T>, to: SymSlice<T>) {
        let (pe, source, dest) = (self.pe(pe), self.from(from), self.at(to));
        check(from, to);
        get_elements("Peers::pull", dest.as_out(), source, to.bytes(), pe);
    }

    /// Copies symmetric memory of this PE to elements of `pe`; otherwise like [`Peers::pull`].
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc_from(&[1i32, 2, 0, 0])?;
    /// shmem.exchange(|peers| peers.push(0, cells.range(2..), cells.range(..2)))?;
    /// assert_eq!(shmem.local(cells), [1, 2, 1, 2]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn push<T: Symmetric>(&self, pe: usize, to: SymSlice<T>, from: SymSlice<T>) {
        let (pe, source, dest) = (self.pe(pe), self.from(from), self.at(to));
        check(from, to);
        put_elements("Peers::push", dest, source.as_in(), to.bytes(), pe);
    }

    /// Orders puts: any PE sees earlier puts before later puts and atomic updates.
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
        order::order(self.stream);
    }

    /// Completes all puts of this PE: their data is in place when the call returns.
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
        self.world.transfers().quiet_of(self.stream);
    }

    /// Waits for all PEs of the team inside the exchange, after a `quiet`. Collective.
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
        collective::pass(self.group("Peers::barrier")).map_err(Fault::of)
    }

    /// Begins an update; its previous value is in `before` after the next quiet.
    ///
    /// The caller leaves `before` untouched until then.
    pub(super) fn update_later<T: Word>(
        &self,
        pe: usize,
        on: SymRef<T>,
        (how, operand): (Update, T),
        before: &mut T,
    ) {
        let before = Out::at(before);
        atomic::update_later("Batch::update", how, (self.word(on), operand), before, self.pe(pe));
    }

    #[inline]
    fn update<T: Word>(&self, pe: usize, on: SymRef<T>, how: Update, operand: T) -> T {
        atomic::update("Peers::update", how, self.word(on), operand, self.pe(pe))
    }

    /// Returns a word as the model takes it.
    #[inline]
    pub(super) fn word<T: Symmetric>(&self, on: SymRef<T>) -> Sym<T> {
        Sym::at(self.at(on.as_slice()).addr())
    }

    /// Reads an element atomically; data that its writer put before a fence is visible afterwards.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let word = shmem.alloc_one(0.5f64)?;
    /// assert_eq!(shmem.exchange(|peers| peers.fetch(0, word))?, 0.5);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    #[inline]
    pub fn fetch<T: Word>(&self, pe: usize, on: SymRef<T>) -> T {
        atomic::fetch("Peers::fetch", SymIn::at(self.word(on).addr()), self.pe(pe))
    }

    /// Writes an element atomically.
    #[inline]
    pub fn set<T: Word>(&self, pe: usize, on: SymRef<T>, value: T) {
        atomic::set("Peers::set", self.word(on), value, self.pe(pe));
    }

    /// Writes an element and returns its previous value.
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

    /// Writes `value` if the element holds `expected`; returns its previous value.
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
        let (word, pe) = (self.word(on), self.pe(pe));
        atomic::compare_swap("Peers::compare_swap", word, expected, value, pe)
    }

    /// Adds, wrapping; returns the previous value.
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

    /// Combines by bitwise and; returns the previous value.
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

    /// Combines by bitwise or; returns the previous value. See [`Peers::fetch_and`].
    #[inline]
    pub fn fetch_or<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::Or, value)
    }

    /// Combines by bitwise exclusive or; returns the previous value. See [`Peers::fetch_and`].
    #[inline]
    pub fn fetch_xor<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T) -> T {
        self.update(pe, on, Update::Xor, value)
    }
}

/// Checks that both ends of a transfer have the same number of elements.
fn check<T: Symmetric>(from: SymSlice<T>, to: SymSlice<T>) {
    let (read, written) = (from.len(), to.len());
    assert!(read == written, "transfer of {read} elements to {written}");
}
