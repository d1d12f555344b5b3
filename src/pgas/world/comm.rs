//! How PEs are reached that are not mapped here, and the meetings of a barrier.
//!
//! Left out: what a transfer does ([`super::far`], [`super::stream`]) and how a PE waits
//! ([`super::wait`]).

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use raidshmem_fabric::Engine;
use raidshmem_segment::words::Barrier;
use raidshmem_sys::fork::has_forked;

use super::far::Far;
use super::nodes::Nodes;
use super::stream::Streams;

/// The ways of this PE to the others.
#[derive(Debug)]
pub struct Communication {
    /// The engine between nodes; None where every PE is mapped.
    pub(in crate::pgas) far: Option<Far>,
    /// What is under way to PEs that are not mapped.
    pub(in crate::pgas) streams: Streams,
    /// The meetings of a barrier, in the view joined.
    nodes: ArcSwap<Nodes>,
    /// PEs live on several nodes in that view.
    several: AtomicBool,
    /// Barriers begun since the last reset, by whose they are.
    epochs: [AtomicU64; 2],
}

impl Communication {
    /// Before a view is joined.
    pub(in crate::pgas) fn new(far: Option<Far>, n_pes: usize) -> Communication {
        let (streams, nodes) = (Streams::new(n_pes), ArcSwap::default());
        let several = AtomicBool::new(false);
        Communication { far, streams, nodes, several, epochs: Default::default() }
    }

    /// The meetings of a barrier.
    #[inline]
    pub(in crate::pgas) fn nodes(&self) -> Guard<Arc<Nodes>> {
        self.nodes.load()
    }

    /// Another view is joined, in which PEs live on `several` nodes or on one.
    pub(in crate::pgas) fn set_nodes(&self, nodes: Nodes, several: bool) {
        self.nodes.store(Arc::new(nodes));
        self.several.store(several, Ordering::Relaxed); // a hint for who adopts no view meanwhile
    }

    /// True if PEs live on several nodes, in the view joined.
    #[inline]
    pub fn has_several_nodes(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// Counts of barriers begun.
    pub(in crate::pgas) fn epochs(&self) -> &[AtomicU64; 2] {
        &self.epochs
    }

    /// True if there are PEs that are reached through an engine, or may be.
    #[inline]
    pub fn has_engine(&self) -> bool {
        self.far.is_some()
    }

    /// The engine and what it needs, where a PE is not mapped.
    pub(in crate::pgas) fn far(&self) -> &Far {
        self.far.as_ref().expect("a PE that is not mapped is reached through an engine")
    }

    /// The engine, where one is needed at all.
    #[inline]
    pub(in crate::pgas) fn engine(&self) -> Option<&dyn Engine> {
        self.far.as_ref().map(|far| &*far.engine)
    }

    /// How long those who wait go on looking for what comes through the engine.
    pub(in crate::pgas) fn patience(&self) -> Duration {
        self.engine().map_or(Duration::ZERO, Engine::patience)
    }

    /// Drives the engine; called by threads that wait.
    #[inline]
    pub(in crate::pgas) fn progress(&self) {
        if let Some(engine) = self.engine() {
            engine.progress();
        }
    }

    /// This thread, which waits, sleeps from now on.
    pub(in crate::pgas) fn rest(&self) {
        if let Some(engine) = self.engine() {
            engine.rest();
        }
    }

    /// The engine ends: no other PE needs this process any more.
    pub(in crate::pgas) fn close(&self) {
        if let Some(engine) = self.engine() {
            engine.close();
        }
    }

    /// True if whatever is written to symmetric memory goes through the page tables of processes
    /// that map it.
    pub(crate) fn sees_writes(&self) -> bool {
        let far = self.far.as_ref();
        !has_forked() && far.is_none_or(|far| far.engine.writes_are_seen())
    }

    /// A barrier begins: its number since the last reset.
    pub(in crate::pgas) fn next_epoch(&self, whose: Barrier) -> u64 {
        self.epochs[whose as usize].fetch_add(1, Ordering::Relaxed) + 1
    }
}
