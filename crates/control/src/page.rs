//! The control page: one page per node, on which the agent publishes the current view to its PEs.
//!
//! Only the agent writes it; PEs map it read-only. Every blocking call of the library polls
//! `number`, a single word. `view_words` copies the whole view.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use raidshmem_core::page::page_up;
use raidshmem_core::quantity::Pe;
use raidshmem_core::view::{Member, View};
use raidshmem_sys::memory;

use crate::view_words::ViewWords;

const HEADER: usize = 64;
/// The word that is 1 during local rollback: only the lost PEs roll back.
const LOCAL: usize = 4;

fn bytes(n_pes: usize) -> usize {
    page_up(HEADER + n_pes * 8)
}

/// A mapping of the page: writable for the agent, read-only for a PE.
#[derive(Debug)]
pub struct Page {
    map: MmapRaw,
    n_pes: usize,
}

impl Page {
    /// Creates the page for `n_pes` PEs: the agent's mapping and the file for the PEs.
    pub fn create(n_pes: usize) -> std::io::Result<(Page, OwnedFd)> {
        let fd = memory::create("raidshmem-view", bytes(n_pes))?;
        let map = MmapOptions::new().len(bytes(n_pes)).map_raw(&fd)?;
        Ok((Page { map, n_pes }, fd))
    }

    /// Maps the page read-only.
    pub fn attach(fd: &OwnedFd, n_pes: usize) -> std::io::Result<Page> {
        let map = MmapOptions::new().len(bytes(n_pes)).map_raw_read_only(&fd.as_fd())?;
        Ok(Page { map, n_pes })
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index * 8 + 8 <= self.map.len());
        // SAFETY: the word lies inside the mapping (asserted), is 8-aligned since mappings are
        // page-aligned, and every process touches it through atomics only. PEs never store to it.
        unsafe { &*self.map.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// Returns the number of the current view; 0 before the first.
    #[inline]
    pub fn number(&self) -> &AtomicU64 {
        self.word(1)
    }

    /// Returns a word that is 1 once every PE has entered `shmem_finalize`.
    #[inline]
    pub fn finished(&self) -> &AtomicU64 {
        self.word(2)
    }

    /// Returns a word that is 1 once the job is asked to stop after its next checkpoint.
    #[inline]
    pub fn stopping(&self) -> &AtomicU64 {
        self.word(3)
    }

    /// Returns a word that is 1 once the launcher has recorded the results of each PE's first
    /// calls.
    #[inline]
    pub fn preludes_kept(&self) -> &AtomicU64 {
        self.word(5)
    }

    /// Returns the word of the request to drain a node after the next checkpoint; 0 if there is
    /// none.
    #[inline]
    pub fn drain(&self) -> &AtomicU64 {
        self.word(6)
    }

    /// Returns the word of the last such request that is over; 0 before the first. A PE may learn
    /// of a request by others, before or after it is published here.
    #[inline]
    pub fn drains_over(&self) -> &AtomicU64 {
        self.word(7)
    }

    fn words(&self) -> ViewWords<'_> {
        let [first, number, local] = [0, 1, LOCAL].map(|index| self.word(index));
        let members = (0..self.n_pes).map(|pe| self.word(HEADER / 8 + pe)).collect();
        ViewWords { first, number, local, members }
    }

    /// Publishes `view`.
    pub fn publish(&self, view: &View) {
        self.words().publish(view);
    }

    /// Returns one PE's entry in the current view.
    #[inline]
    pub fn member(&self, pe: Pe) -> Member {
        Member::unpack(self.word(HEADER / 8 + pe.at()).load(Ordering::Acquire))
    }

    /// Returns a consistent copy of the whole current view.
    pub fn read(&self) -> View {
        self.words().read()
    }
}
