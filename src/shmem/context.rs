//! Contexts, which order and complete their own transfers, and batches of transfers in flight.
//!
//! OpenSHMEM's context options are types here, so that breaking a promise does not compile:
//!
//! ```text
//! Context<Serialized>   one thread at a time: it may be sent to another thread, not shared
//! Context<Private>      only the thread that created it
//! Context<NoStore>      reads only: no transfer that a fence or quiet must wait for
//! ```
//!
//! A context has its own stream (`pgas::stream`): its fence and quiet cover the operations made
//! through it. A batch has one too, on which its transfers go out together. If all streams are
//! taken, a context shares the default one, and a batch's transfers complete at once. Between
//! mapped memories a transfer is complete when its call returns, so there is nothing to wait for.
//!
//! Invariant: before a buffer lent to a stream is used, the stream is closed or its queued
//! transfers are discarded, by `Drop` of a [`Lease`]. No program can prevent that drop for a
//! [`Batch`], which is only ever lent. A context queues nothing.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;

use raidshmem_core::update::Update;

use super::atomic::{Integer, Word};
use super::{Peers, SymRef, SymSlice, Symmetric};
use crate::openshmem::context::{self, Given, Options};
use crate::openshmem::team;
use raidshmem_runtime::pgas::World;
use raidshmem_runtime::pgas::stream::Id;

/// The kind of a context that one thread at a time uses.
#[derive(Debug)]
pub struct Serialized(PhantomData<Cell<()>>);

/// The kind of a context that only its creating thread uses.
#[derive(Debug)]
pub struct Private(PhantomData<*mut ()>);

/// The kind of a context through which nothing is written; one thread at a time uses it.
#[derive(Debug)]
pub struct NoStore(PhantomData<Cell<()>>);

/// A stream of transfers to the PEs of a team, with its own `fence` and `quiet`.
///
/// It gives access to all of [`Peers`], except for [`NoStore`].
///
/// ```
/// let mut shmem = raidshmem::Shmem::init();
/// let cells = shmem.alloc::<u32>(2)?;
/// shmem.exchange(|peers| {
///     std::thread::scope(|threads| {
///         for index in 0..2 {
///             let context = peers.context();
///             threads.spawn(move || {
///                 context.write(0, cells.at(index), 7);
///                 context.quiet(); // of this context
///             });
///         }
///     });
/// })?;
/// assert_eq!(shmem.local(cells), [7, 7]);
/// # Ok::<(), raidshmem::Error>(())
/// ```
#[derive(Debug)]
pub struct Context<'a, Kind> {
    peers: Peers<'a>,
    _lease: Lease<'a>,
    kind: PhantomData<Kind>,
}

/// An allocated stream; dropping it completes the stream.
#[derive(Debug)]
struct Lease<'a> {
    world: &'a World,
    given: Option<Given>,
}

impl<'a> Lease<'a> {
    fn new(world: &'a World, options: Options) -> Lease<'a> {
        let ctx = context::give(world, team::Team::WORLD, options);
        Lease { world, given: ctx.and_then(context::given) }
    }

    fn stream(&self) -> Id {
        self.given.map_or(0, Given::stream)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(given) = self.given else { return };
        if std::thread::panicking() {
            self.world.forget(given.stream()); // the exchange will end this PE
        }
        context::take(self.world, given);
    }
}

impl Peers<'_> {
    fn of_kind<Kind>(&self, options: Options) -> Context<'_, Kind> {
        let lease = Lease::new(self.world(), options);
        let peers = self.through(lease.stream(), false);
        Context { peers, _lease: lease, kind: PhantomData }
    }

    /// Makes a context that one thread at a time uses. See [`Context`] for an example.
    pub fn context(&self) -> Context<'_, Serialized> {
        self.of_kind(Options::default())
    }

    /// Makes a context of this thread.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cell = shmem.alloc_one(0u8)?;
    /// shmem.exchange(|peers| peers.context_private().write(0, cell, 1))?;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    ///
    /// It cannot be sent to another thread:
    ///
    /// ```compile_fail,E0277
    /// # let mut shmem = raidshmem::Shmem::init();
    /// shmem.exchange(|peers| {
    ///     let context = peers.context_private();
    ///     std::thread::scope(|threads| {
    ///         threads.spawn(move || context.quiet());
    ///     });
    /// });
    /// ```
    pub fn context_private(&self) -> Context<'_, Private> {
        self.of_kind(Options::default())
    }

    /// Makes a context that only reads.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cell = shmem.alloc_one(5u32)?;
    /// let (plain, atomic) = shmem.exchange(|peers| {
    ///     let context = peers.context_nostore();
    ///     (context.read(0, cell), context.fetch(0, cell))
    /// })?;
    /// assert_eq!((plain, atomic), (5, 5));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn context_nostore(&self) -> Context<'_, NoStore> {
        self.of_kind(Options { nostore: true, ..Options::default() })
    }

    /// Starts transfers that may complete as late as the end of `body`: their buffers are borrowed
    /// until then, and all are complete when this returns.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc_from(&[1i64, 2])?;
    /// let (mut first, mut before) = ([0], 0);
    /// shmem.exchange(|peers| {
    ///     peers.nonblocking(|batch| {
    ///         batch.get(0, cells.range(..1), &mut first);
    ///         batch.fetch_add(0, cells.at(1), 5, &mut before);
    ///     });
    ///     assert_eq!((first, before), ([1], 2));
    /// })?;
    /// assert_eq!(shmem.local(cells), [1, 7]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    ///
    /// A buffer cannot be accessed earlier:
    ///
    /// ```compile_fail,E0505
    /// # let mut shmem = raidshmem::Shmem::init();
    /// # let cells = shmem.alloc_from(&[1i64, 2])?;
    /// let mut first = vec![0];
    /// shmem.exchange(|peers| {
    ///     peers.nonblocking(|batch| {
    ///         batch.get(0, cells.range(..1), &mut first);
    ///         drop(first);
    ///     });
    /// })?;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn nonblocking<'b, R>(&self, body: impl FnOnce(&Batch<'_, 'b>) -> R) -> R {
        let lease = Lease::new(self.world(), Options::default());
        let later = lease.given.is_some();
        let batch = Batch { peers: self.through(lease.stream(), later), buffers: PhantomData };
        if later {
            self.world().batch(lease.stream(), true, 0);
        }
        let result = body(&batch);
        batch.quiet();
        result
    }
}

impl<'a> Deref for Context<'a, Serialized> {
    type Target = Peers<'a>;

    fn deref(&self) -> &Peers<'a> {
        &self.peers
    }
}

impl<'a> Deref for Context<'a, Private> {
    type Target = Peers<'a>;

    fn deref(&self) -> &Peers<'a> {
        &self.peers
    }
}

impl Context<'_, NoStore> {
    /// Gets elements, like [`Peers::get`].
    pub fn get<T: Symmetric>(&self, pe: usize, from: SymSlice<T>, to: &mut [T]) {
        self.peers.get(pe, from, to);
    }

    /// Reads one element, like [`Peers::read`].
    pub fn read<T: Symmetric>(&self, pe: usize, from: SymRef<T>) -> T {
        self.peers.read(pe, from)
    }

    /// Reads one element atomically, like [`Peers::fetch`].
    pub fn fetch<T: Word>(&self, pe: usize, on: SymRef<T>) -> T {
        self.peers.fetch(pe, on)
    }
}

/// Transfers in flight, as passed by [`Peers::nonblocking`] to its closure. Their buffers live for
/// `'b`.
#[derive(Debug)]
pub struct Batch<'a, 'b> {
    peers: Peers<'a>,
    /// The lifetime of the buffers, invariant.
    buffers: PhantomData<Cell<&'b mut ()>>,
}

impl<'b> Batch<'_, 'b> {
    /// Starts [`Peers::get`].
    pub fn get<T: Symmetric>(&self, pe: usize, from: SymSlice<T>, to: &'b mut [T]) {
        self.peers.get(pe, from, to);
    }

    /// Starts [`Peers::put`].
    pub fn put<T: Symmetric>(&self, pe: usize, to: SymSlice<T>, from: &'b [T]) {
        self.peers.put(pe, to, from);
    }

    /// Starts [`Peers::fetch`].
    pub fn fetch<T: Word>(&self, pe: usize, on: SymRef<T>, before: &'b mut T) {
        self.peers.update_later(pe, on, (Update::Load, T::of(0)), before);
    }

    /// Starts [`Peers::swap`].
    pub fn swap<T: Word>(&self, pe: usize, on: SymRef<T>, value: T, before: &'b mut T) {
        self.peers.update_later(pe, on, (Update::Swap, value), before);
    }

    /// Starts [`Peers::compare_swap`]; `values` are the expected and the new value.
    pub fn compare_swap<T: Integer>(
        &self,
        pe: usize,
        on: SymRef<T>,
        values: (T, T),
        before: &'b mut T,
    ) {
        let how = Update::CompareSwap(values.0.bits());
        self.peers.update_later(pe, on, (how, values.1), before);
    }

    /// Starts [`Peers::fetch_add`].
    pub fn fetch_add<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T, before: &'b mut T) {
        self.peers.update_later(pe, on, (Update::Add, value), before);
    }

    /// Starts [`Peers::fetch_and`].
    pub fn fetch_and<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T, before: &'b mut T) {
        self.peers.update_later(pe, on, (Update::And, value), before);
    }

    /// Starts [`Peers::fetch_or`].
    pub fn fetch_or<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T, before: &'b mut T) {
        self.peers.update_later(pe, on, (Update::Or, value), before);
    }

    /// Starts [`Peers::fetch_xor`].
    pub fn fetch_xor<T: Integer>(&self, pe: usize, on: SymRef<T>, value: T, before: &'b mut T) {
        self.peers.update_later(pe, on, (Update::Xor, value), before);
    }

    /// Waits until all transfers started so far are complete. Buffers stay borrowed.
    pub fn quiet(&self) {
        self.peers.quiet();
    }
}
