//! Signals and waiting: data with a word that announces its arrival, and waits for local words.
//!
//! Waits return as soon as a loss is known, with [`Fault`]. A word that a PE waits for is written
//! by [`Peers::set`], an atomic update, [`Peers::put_signal`] or a put of one element.

use raidshmem_core::update::Update;
use raidshmem_segment::waits::Waiting;

use super::atomic::Word;
use super::{Fault, Peers, SymRef, SymSlice, Symmetric};
use crate::openshmem::memory::atomic::change_word;
use crate::openshmem::memory::issue::issue;
use crate::openshmem::memory::logged;
use crate::openshmem::memory::operation::Operation;
use crate::openshmem::memory::word::Word as Own;

/// The update of the signal word that follows a put's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Sets the word.
    Set(u64),
    /// Adds to the word, wrapping.
    Add(u64),
}

impl Peers<'_> {
    /// Copies private memory of this PE to elements of `pe` and then updates a word there: a PE
    /// that sees the word sees the data.
    ///
    /// # Panics
    /// If the lengths differ or the PE does not exist.
    ///
    /// ```
    /// use raidshmem::Signal;
    ///
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (data, arrived) = (shmem.alloc::<u32>(3)?, shmem.alloc_one(0u64)?);
    /// let next = (shmem.my_pe() + 1) % shmem.n_pes();
    /// shmem.exchange(|peers| {
    ///     peers.put_signal(next, data, &[1, 2, 3], arrived, Signal::Add(1));
    ///     peers.wait_until(arrived, |times| times == 1)
    /// })??;
    /// assert_eq!(shmem.local(data), [1, 2, 3]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn put_signal<T: Symmetric>(
        &self,
        pe: usize,
        to: SymSlice<T>,
        from: &[T],
        word: SymRef<u64>,
        signal: Signal,
    ) {
        self.put(pe, to, from);
        self.signal(pe, word, signal);
    }

    /// Updates a signal word of `pe`; a PE that sees it sees the earlier puts.
    ///
    /// ```
    /// use raidshmem::Signal;
    ///
    /// let mut shmem = raidshmem::Shmem::init();
    /// let word = shmem.alloc_one(0u64)?;
    /// shmem.exchange(|peers| {
    ///     peers.signal(peers.my_pe(), word, Signal::Set(4));
    ///     peers.signal(peers.my_pe(), word, Signal::Add(1));
    /// })?;
    /// assert_eq!(shmem.read(word), 5);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn signal(&self, pe: usize, word: SymRef<u64>, signal: Signal) {
        let (how, value) = match signal {
            Signal::Set(value) => (Update::Store, value),
            Signal::Add(value) => (Update::Add, value),
        };
        let word = Own::new("Peers::signal", "the signal word", self.word(word), self.pe(pe));
        change_word("Peers::signal", word.after_puts(), how, value);
    }

    /// Returns this PE's current value of a word; earlier puts of its writer are visible.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let word = shmem.alloc_one(3u64)?;
    /// assert!(shmem.exchange(|peers| peers.own(word) > 2)?);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn own<T: Word>(&self, on: SymRef<T>) -> T {
        T::of(issue(Operation::look("Peers::own", self.watched(on))))
    }

    fn watched<T: Word>(&self, on: SymRef<T>) -> Own {
        Own::own("Peers::wait", "the word waited for", self.word(on))
    }

    /// Blocks until `ready` accepts the value of this PE's own element; returns that value. `ready`
    /// may be called any number of times.
    ///
    /// # Errors
    /// [`Fault`] if a PE is lost meanwhile.
    ///
    /// See [`Peers::put_signal`] for an example.
    pub fn wait_until<T: Word>(
        &self,
        own: SymRef<T>,
        mut ready: impl FnMut(T) -> bool,
    ) -> Result<T, Fault> {
        let (_, value) = self.wait_until_any(own.as_slice(), |_, value| ready(value))?;
        Ok(value)
    }

    /// Blocks until `ready` accepts one of this PE's own elements; returns its index and value.
    /// `ready` receives both.
    ///
    /// # Errors
    /// [`Fault`] if a PE is lost meanwhile.
    ///
    /// # Panics
    /// If there are no elements.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let words = shmem.alloc::<u64>(4)?;
    /// let found = shmem.exchange(|peers| {
    ///     peers.set(peers.my_pe(), words.at(2), 9);
    ///     peers.wait_until_any(words, |_, value| value != 0)
    /// })??;
    /// assert_eq!(found, (2, 9));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn wait_until_any<T: Word>(
        &self,
        own: SymSlice<T>,
        mut ready: impl FnMut(usize, T) -> bool,
    ) -> Result<(usize, T), Fault> {
        assert!(!own.is_empty(), "there is nothing to wait for");
        let words: Vec<Own> = (0..own.len()).map(|index| self.watched(own.at(index))).collect();
        let mut look = || {
            let values = words.iter().map(|word| T::of(word.load())).enumerate();
            let found = { values }.find(|(index, value)| ready(*index, *value));
            found.map(|(index, value)| (index, value.bits()))
        };
        let find = || {
            let mut found = look();
            if found.is_none() {
                let ready = || {
                    found = look();
                    found.is_some()
                };
                // After a loss nothing is found.
                let waiting = || Waiting::anyone("Peers::wait_until");
                let _ = self.world().wait_until(waiting, ready);
            }
            found
        };
        let with = words.iter().map(|word| word.place().offset() as u64).sum();
        let found = logged::found(self.world(), "Peers::wait_until", with, find);
        let (index, value) = found.ok_or_else(Fault::new)?;
        Ok((index, T::of(value)))
    }

    /// Blocks until `ready` has accepted every one of this PE's own elements. `ready` receives
    /// index and value, and is not called again for an element that it has accepted.
    ///
    /// # Errors
    /// [`Fault`] if a PE is lost meanwhile.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (n, me) = (shmem.n_pes(), shmem.my_pe());
    /// let from = shmem.alloc::<u32>(n)?; // one word for each PE
    /// shmem.exchange(|peers| {
    ///     (0..n).for_each(|pe| peers.set(pe, from.at(me), 1));
    ///     peers.wait_until_all(from, |_, value| value == 1)
    /// })??;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn wait_until_all<T: Word>(
        &self,
        own: SymSlice<T>,
        mut ready: impl FnMut(usize, T) -> bool,
    ) -> Result<(), Fault> {
        for index in 0..own.len() {
            self.wait_until(own.at(index), |value| ready(index, value))?;
        }
        Ok(())
    }
}
