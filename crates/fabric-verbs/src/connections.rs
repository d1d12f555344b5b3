//! The connections of an engine, made on demand.
//!
//! Invariants: `peers` holds the connection to the incarnation that the caller named last;
//! `listening` holds those whose messages are still processed. `disconnect` removes a connection
//! from both, but it stays in `all`, where its last completions find it.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwapOption;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::Lost;
use raidshmem_sys::lock;

use crate::conn::Conn;
use crate::wire::Address;

/// The connections to all peers, present and past.
#[derive(Debug)]
pub struct Connections {
    peers: Box<[ArcSwapOption<Conn>]>,
    incarnations: Box<[AtomicU32]>,
    all: RwLock<Vec<Arc<Conn>>>,
    listening: Mutex<HashMap<u32, Arc<Conn>>>,
    /// Work requests of a connection at a time.
    pub depth: usize,
}

impl Connections {
    /// Creates no connection yet to `n` peers.
    pub fn new(n: usize, depth: usize) -> Connections {
        Connections {
            peers: (0..n).map(|_| ArcSwapOption::empty()).collect(),
            incarnations: (0..n).map(|_| AtomicU32::new(0)).collect(),
            all: RwLock::default(),
            listening: Mutex::default(),
            depth,
        }
    }

    /// Sets `pe` to this incarnation, with so many windows; the connection is made on first use.
    pub fn add(&self, pe: Pe, incarnation: Incarnation, address: Address, windows: usize) {
        self.disconnect(pe);
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let index = all.len() as u32;
        let conn = Conn::new(index, (pe, incarnation), address, windows, self.depth);
        let conn = Arc::new(conn);
        all.push(Arc::clone(&conn));
        self.incarnations[pe.at()].store(incarnation.0, Ordering::Relaxed);
        self.peers[pe.at()].store(Some(conn));
    }

    /// Stops all traffic with `pe`.
    pub fn disconnect(&self, pe: Pe) {
        let Some(conn) = self.peers[pe.at()].swap(None) else { return };
        conn.broken.store(true, Ordering::Release);
        let _ends = lock(&conn.ends); // excludes creation of its queue pair
        if let Some(pair) = conn.pair.get() {
            pair.fail();
            lock(&self.listening).remove(&pair.number());
        }
    }

    /// Returns the connection to `pe`, open or not.
    pub fn to(&self, pe: Pe) -> Result<Arc<Conn>, Lost> {
        let incarnation = || Incarnation(self.incarnations[pe.at()].load(Ordering::Relaxed));
        let conn = self.peers[pe.at()].load_full();
        conn.ok_or_else(|| Lost { pe, incarnation: incarnation() })
    }

    /// Returns a connection by its index.
    pub fn at(&self, index: u32) -> Option<Arc<Conn>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(index as usize).cloned()
    }

    /// Processes the messages that arrive through queue pair `qpn`.
    pub fn listen(&self, qpn: u32, conn: &Arc<Conn>) {
        lock(&self.listening).insert(qpn, Arc::clone(conn));
    }

    /// Returns the connection that receives messages through queue pair `qpn`.
    pub fn listening(&self, qpn: u32) -> Option<Arc<Conn>> {
        lock(&self.listening).get(&qpn).cloned()
    }
}
