//! The safe Rust API: symmetric memory by handles, transfers inside exchanges, checkpoints.
//!
//! Other processes write symmetric memory whenever they like; Rust references promise that nobody
//! does. Here the two never meet. [`Shmem`] is the one token of initialisation. It lends references
//! to a PE's own memory ([`Shmem::local`], [`Shmem::local_mut`]), and it lends the other PEs
//! ([`Shmem::exchange`], which borrows it mutably), so a reference cannot live into an exchange;
//! and an exchange begins and ends with all PEs passing a gate together, so no PE transfers while
//! another holds a reference. A checkpoint or restart borrows the token mutably too.
//!
//! All state of a program that is to survive lies in symmetric memory and is reached by handles
//! ([`SymSlice`], [`SymRef`]), which are plain data themselves: [`ft::run`] keeps the handle of the
//! program's state where a substitute finds it. Statics of a Rust program are not symmetric.
//!
//! What an expert should know: soundness rests on every PE of the job running a program written to
//! this API; a C program in the same job can write at any time, as can `unsafe` code here.
//!
//! Left out: teams and contexts; the C API has them.

mod atomic;
mod bytes;
pub mod ft;
mod handle;
mod peers;
mod root;

use std::marker::PhantomData;

pub use atomic::{Integer, Word};
pub use handle::{SymRef, SymSlice, Symmetric};
pub use peers::Peers;

use crate::pgas::{self, World};
use crate::sys::memory::PAGE;
use root::Meeting;

/// A PE was lost: what was done since the last checkpoint will be undone by the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a PE was lost")]
pub struct Fault(());

impl Fault {
    fn new() -> Fault {
        Fault(())
    }
}

/// Why a call of this API failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A PE was lost; see [`ft`].
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The symmetric heap has no room.
    #[error("no room for {bytes} bytes in the symmetric heap; set SHMEM_SYMMETRIC_SIZE")]
    NoRoom {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The checkpoint was refused on every PE; the last one stays good.
    #[error("{0}")]
    Refused(String),
}

/// The token of initialisation: the library is initialised while it exists.
///
/// Started without `oshrun`, a program is a job of one PE.
///
/// ```
/// let shmem = raidshmem::Shmem::init();
/// println!("PE {} of {}", shmem.my_pe(), shmem.n_pes());
/// ```
#[derive(Debug)]
pub struct Shmem {
    world: &'static World,
    /// One thread at a time: references to symmetric memory and exchanges exclude each other.
    not_shared: PhantomData<*mut ()>,
}

impl Shmem {
    /// Initialises the library. A substitute returns from here when it has been given its number.
    ///
    /// # Panics
    /// If there is a token already, or was one.
    pub fn init() -> Shmem {
        assert!(!pgas::initialized(), "Shmem::init is called once in a process");
        pgas::init(0);
        let world = pgas::world();
        let block = world.heap_alloc(root::ROOT_BYTES, PAGE);
        assert_eq!(block, world.at(world.layout().heap), "the first allocation");
        Shmem { world, not_shared: PhantomData }
    }

    /// Number of this PE, from 0.
    pub fn my_pe(&self) -> usize {
        self.world.me()
    }

    /// Number of PEs.
    pub fn n_pes(&self) -> usize {
        self.world.n_pes()
    }

    /// Allocates `len` elements, all bytes zero, on every PE. Every PE makes the same allocations
    /// in the same order, as `shmem_malloc` asks for.
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
        let at = self.world.heap_alloc(bytes.max(1), align_of::<T>().max(64));
        let heap = self.world.at(self.world.layout().heap);
        if at.is_null() {
            return Err(Error::NoRoom { bytes });
        }
        let slice = SymSlice::new(at as usize - heap as usize, len);
        self.local_mut(slice).fill(T::zeroed());
        Ok(slice)
    }

    /// Allocates one element with a first value, which may differ from PE to PE.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn alloc_one<T: Symmetric>(&mut self, value: T) -> Result<SymRef<T>, Error> {
        Ok(self.alloc_from(&[value])?.at(0))
    }

    /// Allocates as many elements as `values` has, and copies them. The length is the same on every
    /// PE, the values need not be.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn alloc_from<T: Symmetric>(&mut self, values: &[T]) -> Result<SymSlice<T>, Error> {
        let slice = self.alloc(values.len())?;
        self.local_mut(slice).copy_from_slice(values);
        Ok(slice)
    }

    /// Frees an allocation, on every PE in the same order. Handles of it name other data then.
    ///
    /// # Panics
    /// If it is not the whole of an allocation.
    pub fn free<T: Symmetric>(&mut self, slice: SymSlice<T>) {
        let at = self.world.at(slice.checked(self.world));
        if let Err(error) = self.world.heap_free(at) {
            panic!("{slice:?} cannot be freed: {error}");
        }
    }

    /// This PE's elements of `slice`.
    ///
    /// # Panics
    /// If the handle names no symmetric memory.
    pub fn local<T: Symmetric>(&self, slice: SymSlice<T>) -> &[T] {
        let at = slice.checked(self.world);
        bytemuck::cast_slice(self.world.segment().bytes(at, slice.bytes()))
    }

    /// This PE's elements of `slice`, to be changed.
    ///
    /// # Panics
    /// If the handle names no symmetric memory.
    pub fn local_mut<T: Symmetric>(&mut self, slice: SymSlice<T>) -> &mut [T] {
        let at = slice.checked(self.world);
        bytemuck::cast_slice_mut(self.world.segment().bytes_mut(at, slice.bytes()))
    }

    /// This PE's elements of two slices, the second to be changed.
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
        let segment = self.world.segment();
        let read = bytemuck::cast_slice(segment.bytes(from, read.bytes()));
        (read, bytemuck::cast_slice_mut(segment.bytes_mut(to, write.bytes())))
    }

    /// This PE's value of an element.
    pub fn read<T: Symmetric>(&self, from: SymRef<T>) -> T {
        self.local(from.as_slice())[0]
    }

    /// Sets this PE's value of an element.
    pub fn write<T: Symmetric>(&mut self, to: SymRef<T>, value: T) {
        self.local_mut(to.as_slice())[0] = value;
    }

    /// Reaches the other PEs. Collective: all PEs begin together, each does its transfers, atomic
    /// updates and waiting, and all end together; then everything is complete everywhere.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    pub fn exchange<R>(&mut self, body: impl FnOnce(&Peers) -> R) -> Result<R, Fault> {
        root::pass(self.world, Meeting::Open)?;
        let result = body(&Peers::new(self.world));
        self.world.quiet();
        root::pass(self.world, Meeting::Close)?;
        Ok(result)
    }

    /// Waits for all PEs.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    pub fn barrier_all(&mut self) -> Result<(), Fault> {
        root::pass(self.world, Meeting::Barrier)
    }

    /// Ends the whole job with `status`.
    pub fn global_exit(self, status: i32) -> ! {
        pgas::global_exit(status)
    }

    /// Leaves the job in good order, as dropping the token does: waits until every PE has come
    /// here.
    pub fn finalize(self) {}
}

impl Drop for Shmem {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // this PE is about to die; nobody must wait for it
        }
        pgas::finalize();
    }
}
