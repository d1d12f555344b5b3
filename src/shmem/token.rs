//! The token [`Shmem`]: local memory by reference, exchanges, and the end of the job.
//!
//! Unsafe code: lends the local memory, which the token lends once at a time.

use std::marker::PhantomData;

use raidshmem_core::page::PAGE;
use raidshmem_runtime::pgas::{self, World};

use super::root;
use super::{Error, Fault, Peers, SymRef, SymSlice, Symmetric, Team};
use crate::openshmem;
use crate::openshmem::collective;
use crate::openshmem::group::SyncPoint;

/// The token of initialisation: the library is initialised while it exists.
///
/// A program started without `oshrun` is a job of one PE.
///
/// ```
/// let shmem = raidshmem::Shmem::init();
/// println!("PE {} of {}", shmem.my_pe(), shmem.n_pes());
/// ```
#[derive(Debug)]
pub struct Shmem {
    pub(super) world: &'static World,
    /// One thread at a time: references to symmetric memory and exchanges exclude each other.
    not_shared: PhantomData<*mut ()>,
}

impl Shmem {
    /// Initialises the library. In a substitute it returns once the process has received its
    /// number.
    ///
    /// # Panics
    /// If there is or was a token in this process.
    pub fn init() -> Shmem {
        assert!(!pgas::initialized(), "Shmem::init is called once in a process");
        openshmem::start(0);
        let world = pgas::world();
        let block = world.memory.alloc(root::ROOT_BYTES, PAGE);
        let heap = world.segments.own().base().wrapping_add(world.segments.layout().heap);
        assert_eq!(block, heap, "the first allocation");
        if world.members.is_new() {
            root::settle(world); // no PE is in the middle of a transfer to its predecessor
        }
        Shmem { world, not_shared: PhantomData }
    }

    /// Returns the number of this PE, from 0.
    pub fn my_pe(&self) -> usize {
        self.world.me().at()
    }

    /// Returns the number of PEs.
    pub fn n_pes(&self) -> usize {
        self.world.n_pes()
    }

    /// Allocates `len` elements, all bytes zero, on every PE. Every PE makes the same allocations
    /// in the same order, as `shmem_malloc` requires.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc::<f64>(1000)?;
    /// assert_eq!(shmem.local(cells)[999], 0.0);
    /// shmem.free(cells);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn alloc<T: Symmetric>(&mut self, len: usize) -> Result<SymSlice<T>, Error> {
        let bytes = len.saturating_mul(size_of::<T>());
        let at = self.world.memory.alloc(bytes.max(1), align_of::<T>().max(64));
        let heap = self.world.segments.own().base().wrapping_add(self.world.segments.layout().heap);
        if at.is_null() {
            return Err(Error::NoRoom { bytes });
        }
        let offset = at as usize - heap as usize;
        let slice = SymSlice::new(offset, len);
        self.local_mut(slice).fill(T::zeroed());
        Ok(slice)
    }

    /// Allocates one element with an initial value, which may differ from PE to PE.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn alloc_one<T: Symmetric>(&mut self, value: T) -> Result<SymRef<T>, Error> {
        Ok(self.alloc_from(&[value])?.at(0))
    }

    /// Allocates as many elements as `values` has, and copies them. The length must be equal on all
    /// PEs, the values need not be.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn alloc_from<T: Symmetric>(&mut self, values: &[T]) -> Result<SymSlice<T>, Error> {
        let slice = self.alloc(values.len())?;
        self.local_mut(slice).copy_from_slice(values);
        Ok(slice)
    }

    /// Frees an allocation, on every PE in the same order. Its handles then name other data.
    ///
    /// # Panics
    /// If it is not the whole of an allocation.
    pub fn free<T: Symmetric>(&mut self, slice: SymSlice<T>) {
        let at = self.world.segments.own().base().wrapping_add(slice.checked(self.world));
        if let Err(error) = self.world.memory.free(at) {
            panic!("{slice:?} cannot be freed: {error}");
        }
    }

    /// Returns this PE's elements of `slice`.
    ///
    /// # Panics
    /// If the handle names no symmetric memory.
    pub fn local<T: Symmetric>(&self, slice: SymSlice<T>) -> &[T] {
        let at = slice.checked(self.world);
        bytemuck::cast_slice(self.world.segments.own().bytes(at, slice.bytes()))
    }

    /// Returns this PE's elements of `slice`, for modification.
    ///
    /// # Panics
    /// If the handle names no symmetric memory.
    pub fn local_mut<T: Symmetric>(&mut self, slice: SymSlice<T>) -> &mut [T] {
        let at = slice.checked(self.world);
        // SAFETY: inside the heap (`checked`). Within this PE `&mut self` is the only path to its
        // memory; the parent module's head explains what peers may write, and when.
        bytemuck::cast_slice_mut(unsafe { self.world.segments.own().bytes_mut(at, slice.bytes()) })
    }

    /// Returns this PE's elements of two slices, the second for modification.
    ///
    /// # Panics
    /// If a handle names no symmetric memory, or the two overlap.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (old, new) = (shmem.alloc_from(&[1, 2, 3])?, shmem.alloc::<i32>(3)?);
    /// let (from, to) = shmem.local_pair(old, new);
    /// to.copy_from_slice(from);
    /// assert_eq!(shmem.local(new), [1, 2, 3]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn local_pair<T: Symmetric, U: Symmetric>(
        &mut self,
        read: SymSlice<T>,
        write: SymSlice<U>,
    ) -> (&[T], &mut [U]) {
        assert!(!read.overlaps(write), "{read:?} and {write:?} overlap");
        let (from, to) = (read.checked(self.world), write.checked(self.world));
        let segment = self.world.segments.own();
        let read = bytemuck::cast_slice(segment.bytes(from, read.bytes()));
        // SAFETY: as in `local_mut`; the two do not overlap (asserted).
        (read, bytemuck::cast_slice_mut(unsafe { segment.bytes_mut(to, write.bytes()) }))
    }

    /// Returns this PE's value of an element.
    pub fn read<T: Symmetric>(&self, from: SymRef<T>) -> T {
        self.local(from.as_slice())[0]
    }

    /// Sets this PE's value of an element.
    pub fn write<T: Symmetric>(&mut self, to: SymRef<T>, value: T) {
        self.local_mut(to.as_slice())[0] = value;
    }

    /// Gives access to the other PEs. Collective: all PEs begin together, each makes its transfers,
    /// atomic updates and waits, and all end together; then all operations are complete everywhere.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost. With `SHMEM_FT_ROLLBACK=none` all survivors get the same result,
    /// and in an exchange of a team with a lost member `body` is not called:
    /// [`shrink`](super::ft::shrink) the team first.
    ///
    /// A panic of `body` ends this PE, because peers may be writing its memory.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (mine, sum) = (shmem.alloc_from(&[1.5, 2.5])?, shmem.alloc::<f64>(2)?);
    /// shmem.exchange(|peers| peers.sum(sum, mine))??;
    /// assert_eq!(shmem.local(sum), [1.5, 2.5]); // of one PE
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn exchange<R>(&mut self, body: impl FnOnce(&Peers) -> R) -> Result<R, Fault> {
        self.exchange_in(Team::WORLD, body)
    }

    /// Gives access to the other PEs of a team, counted in the order of the team. Collective over
    /// the team; PEs that are not members continue undisturbed.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If this PE is not a member. A panic of `body` ends this PE.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let [row, _] = shmem.split_2d(shmem.team_world(), 2)?;
    /// let first = shmem.alloc_one(shmem.my_pe())?;
    /// let leader = shmem.exchange_in(row, |peers| peers.read(0, first))?;
    /// assert_eq!(leader, shmem.my_pe() / 2 * 2);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn exchange_in<R>(
        &mut self,
        team: Team,
        body: impl FnOnce(&Peers) -> R,
    ) -> Result<R, Fault> {
        let group = team.group("exchange");
        if self.world.shrinks() {
            return self.exchange_among((team, group), body);
        }
        let pass = |gate| collective::pass(group.through(gate)).map_err(Fault::of);
        let lost = |fault| {
            self.world.transfers().quiet_all(); // nothing of this PE is in flight any more
            root::settle(self.world);
            fault
        };
        if !root::enter(self.world) {
            return Err(lost(Fault::new()));
        }
        pass(SyncPoint::Open).map_err(lost)?;
        let bomb = EndOnPanic;
        let result = body(&Peers::new(self.world, team));
        std::mem::forget(bomb);
        self.world.transfers().quiet_all(); // contexts included
        pass(SyncPoint::Close).map_err(lost)?;
        self.healthy().map_err(lost)?; // a PE lost after its last signal: reads returned zeroes
        root::leave(self.world.segments);
        Ok(result)
    }

    /// Waits for all PEs.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// shmem.barrier_all()?;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn barrier_all(&mut self) -> Result<(), Fault> {
        if self.world.loss_response().is_local_rollback() {
            return self.world.barriers().barrier("barrier_all").map_err(Fault::of);
        }
        self.healthy()?;
        collective::pass(Team::WORLD.group("barrier_all").through(SyncPoint::Barrier))
            .map_err(Fault::of)
    }

    /// Returns an error between a death and the restart.
    pub(super) fn healthy(&self) -> Result<(), Fault> {
        self.world.loss_response().healthy().map_err(Fault::of)
    }

    /// Ends the whole job with `status`.
    pub fn global_exit(self, status: i32) -> ! {
        pgas::global_exit(status)
    }

    /// Leaves the job in an orderly way, as dropping the token does: waits until every PE arrives.
    pub fn finalize(self) {}
}

impl Drop for Shmem {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // this PE is about to die; no PE may wait for it
        }
        pgas::finalize();
    }
}

/// Ends this process when dropped, with the status of a panic, whose message is already printed.
pub(super) struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        std::process::exit(101);
    }
}
