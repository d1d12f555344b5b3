//! Access to PEs that are not mapped here, and the meetings of a barrier.
//!
//! Left out: transfers ([`super::remote`], [`super::stream`]) and waiting ([`super::wait`]).

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use raidshmem_fabric::Engine;
use raidshmem_segment::words::Barrier;
use raidshmem_sys::fork::has_forked;

use super::nodes::Nodes;
use super::remote::Remote;
use super::stream::Streams;

/// The paths from this PE to the others.
#[derive(Debug)]
pub struct Communication {
    /// The engine between nodes; None if every PE is mapped.
    pub(in crate::pgas) remote: Option<Remote>,
    /// Operations in progress on PEs that are not mapped.
    pub(in crate::pgas) streams: Streams,
    /// The meetings of a barrier, in the joined view.
    nodes: ArcSwap<Nodes>,
    /// True if PEs live on several nodes in that view.
    several: AtomicBool,
    /// Barriers begun since the last reset, indexed by `Barrier`.
    epochs: [AtomicU64; 2],
}

impl Communication {
    /// Returns the state before a view is joined.
    pub(in crate::pgas) fn new(remote: Option<Remote>, n_pes: usize) -> Communication {
        let (streams, nodes) = (Streams::new(n_pes), ArcSwap::default());
        let several = AtomicBool::new(false);
        Communication { remote, streams, nodes, several, epochs: Default::default() }
    }

    /// Returns the meetings of a barrier.
    #[inline]
    pub(in crate::pgas) fn nodes(&self) -> Guard<Arc<Nodes>> {
        self.nodes.load()
    }

    /// Sets the meetings of a newly joined view; `several` is true if its PEs live on several
    /// nodes.
    pub(in crate::pgas) fn set_nodes(&self, nodes: Nodes, several: bool) {
        self.nodes.store(Arc::new(nodes));
        self.several.store(several, Ordering::Relaxed); // a hint, if no view is adopted meanwhile
    }

    /// Returns true if PEs live on several nodes, in the joined view.
    #[inline]
    pub fn has_several_nodes(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// Returns the numbers of barriers begun.
    pub(in crate::pgas) fn epochs(&self) -> &[AtomicU64; 2] {
        &self.epochs
    }

    /// Returns true if an engine reaches some PEs, or may.
    #[inline]
    pub fn has_engine(&self) -> bool {
        self.remote.is_some()
    }

    /// Returns the engine and its state; call only if a PE is not mapped.
    pub(in crate::pgas) fn remote(&self) -> &Remote {
        self.remote.as_ref().expect("a PE that is not mapped is reached through an engine")
    }

    /// Returns the engine, if there is one.
    #[inline]
    pub(in crate::pgas) fn engine(&self) -> Option<&dyn Engine> {
        self.remote.as_ref().map(|remote| &*remote.engine)
    }

    /// Returns how long a waiting PE keeps polling the engine before it sleeps.
    pub(in crate::pgas) fn patience(&self) -> Duration {
        self.engine().map_or(Duration::ZERO, Engine::patience)
    }

    /// Drives the engine; waiting threads call it.
    #[inline]
    pub(in crate::pgas) fn progress(&self) {
        if let Some(engine) = self.engine() {
            engine.progress();
        }
    }

    /// Notifies the engine that this waiting thread is about to sleep.
    pub(in crate::pgas) fn rest(&self) {
        if let Some(engine) = self.engine() {
            engine.rest();
        }
    }

    /// Closes the engine, once no other PE needs this process.
    pub(in crate::pgas) fn close(&self) {
        if let Some(engine) = self.engine() {
            engine.close();
        }
    }

    /// Returns true if every write to symmetric memory goes through the page tables of processes
    /// that map it.
    pub(crate) fn sees_writes(&self) -> bool {
        let remote = self.remote.as_ref();
        !has_forked() && remote.is_none_or(|remote| remote.engine.writes_are_seen())
    }

    /// Begins a barrier, and returns its number since the last reset.
    pub(in crate::pgas) fn next_epoch(&self, whose: Barrier) -> u64 {
        self.epochs[whose as usize].fetch_add(1, Ordering::Relaxed) + 1
    }
}
