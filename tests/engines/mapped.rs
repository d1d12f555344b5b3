//! Mapped peers behind the engine trait: `self` and `shm`.
//!
//! The library reaches mapped peers without an engine. This adapter uses the same segments, updates
//! and fences, so that the suite covers them like all engines.

use std::sync::atomic::{Ordering, fence};
use std::sync::{PoisonError, RwLock};

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::{AmoRequest, Engine, FabricError, Lost, Read, Write};
use raidshmem_segment::update::{Change, Update, WordAt};
use raidshmem_segment::{OpenParts, Segment};

use super::node::{PES, fill, layout, part};

#[derive(Debug)]
pub struct Mapped {
    path: String,
    peers: RwLock<[Option<(u32, &'static Segment)>; PES]>,
}

impl Mapped {
    pub fn new(path: &str) -> Mapped {
        Mapped { path: path.to_owned(), peers: RwLock::new([None; PES]) }
    }

    fn peer(&self, pe: Pe) -> Result<&'static Segment, Lost> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers[pe.at()]
            .map(|(_, segment)| segment)
            .ok_or(Lost { pe, incarnation: Incarnation(u32::MAX) })
    }
}

impl Engine for Mapped {
    fn address(&self) -> Vec<u8> {
        self.path.clone().into_bytes()
    }

    fn connect(&self, pe: Pe, incarnation: Incarnation, address: &[u8]) -> Result<(), FabricError> {
        let path = std::str::from_utf8(address).expect("a path");
        let segment = Segment::peer(&part(path), layout(), OpenParts::default())
            .expect("it is mapped")
            .leak();
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers[pe.at()] = Some((incarnation.0, segment));
        Ok(())
    }

    fn disconnect(&self, pe: Pe) {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)[pe.at()] = None;
    }

    fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        let mut first = Ok(());
        for Write { pe, offset, from } in writes {
            match (self.peer(*pe), <[u8; 8]>::try_from(*from)) {
                (Err(lost), _) => first = first.and(Err(lost)),
                (Ok(to), Ok(word)) if offset.is_multiple_of(8) => {
                    let change = Change { how: Update::Store, operand: u64::from_ne_bytes(word) };
                    to.update(WordAt { offset: *offset, bytes: 8 }, change);
                }
                (Ok(to), _) => fill(to, *offset, from),
            }
        }
        first
    }

    fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let mut first = Ok(());
        for Read { pe, offset, into } in reads {
            match self.peer(*pe) {
                Ok(from) => into.copy_from_slice(from.bytes(*offset, into.len())),
                Err(lost) => first = first.and(Err(lost)),
            }
        }
        first
    }

    fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        let mut first = Ok(());
        for (ask, before) in asks.iter().zip(before) {
            match self.peer(ask.pe) {
                Ok(of) => *before = of.update(ask.word, ask.change).expect("a word"),
                Err(lost) => first = first.and(Err(lost)),
            }
        }
        first
    }

    fn post(&self, ask: AmoRequest) -> Result<(), Lost> {
        self.peer(ask.pe)?.update(ask.word, ask.change).expect("a word");
        Ok(())
    }

    fn fence(&self, _: &[Pe]) -> Result<(), Lost> {
        fence(Ordering::Release);
        Ok(())
    }

    fn quiet(&self, _: &[Pe]) -> Result<(), Lost> {
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn wake(&self, pe: Pe) {
        if let Ok(peer) = self.peer(pe) {
            peer.words().bell.wake();
        }
    }
}
