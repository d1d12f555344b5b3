//! A network in memory, with seeded delays and every order that the trait allows.
//!
//! Puts, posts and requests are parcels in one heap. A thread takes any parcel that may arrive
//! next: a post not before an earlier post to the same peer, and nothing before the parcels that a
//! fence orders first. Parcels to or from dead PEs never arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_fabric::{AmoRequest, Engine, EventSink, FabricError, Lost, Read, Write};
use raidshmem_segment::Segment;
use raidshmem_segment::update::{Change, Update, WordAt};

use super::node::{Node, View, fill, own};
use super::random::Random;

/// Parcels in flight; further ones wait.
const DEPTH: usize = 48;

/// A PE and its incarnation.
type Who = (Pe, Incarnation);

#[derive(Debug, Clone)]
enum What {
    Put(usize, Vec<u8>),
    Get(usize, usize),
    Change(AmoRequest),
    Post(AmoRequest),
}

#[derive(Debug)]
struct Parcel {
    number: u64,
    from: Who,
    to: Who,
    /// The number of fences from the sender to the target before it.
    fences: u64,
    what: What,
}

#[derive(Default)]
struct State {
    parcels: Vec<Parcel>,
    answers: BTreeMap<u64, Vec<u8>>,
    fences: BTreeMap<(Who, Who), u64>,
    living: BTreeMap<Who, (&'static Segment, Arc<View>)>,
    /// The oldest incarnation of a peer from which a PE accepts parcels.
    oldest: BTreeMap<(Who, Pe), Incarnation>,
    next: u64,
}

struct Net {
    state: Mutex<State>,
    moved: Condvar,
}

/// The network.
#[derive(Clone)]
pub struct Hub(Arc<Net>);

impl Hub {
    pub fn new(seed: u64) -> Hub {
        let net = Arc::new(Net { state: Mutex::default(), moved: Condvar::new() });
        let weak = Arc::downgrade(&net);
        std::thread::spawn(move || {
            let mut random = Random::new(seed);
            while let Some(net) = weak.upgrade() {
                let mut state = net.state.lock().unwrap();
                if state.parcels.is_empty() {
                    state = net.moved.wait_timeout(state, Duration::from_millis(1)).unwrap().0;
                }
                deliver(&mut state, &mut random);
                drop(state);
                net.moved.notify_all();
                if random.below(64) == 0 {
                    std::thread::sleep(Duration::from_micros(random.below(200) as u64)); // a delay
                }
            }
        });
        Hub(net)
    }

    /// Opens a PE on this network, over the memory under `path`.
    pub fn node(&self, me: Pe, incarnation: Incarnation, path: &str) -> Node {
        let (segment, view) = (own(path), Arc::new(View::default()));
        let who = (me, incarnation);
        self.0.state.lock().unwrap().living.insert(who, (segment, view.clone()));
        let engine = Sim { net: self.0.clone(), who, peers: Mutex::default(), view: view.clone() };
        Node { me, segment, engine: Box::new(engine), view }
    }

    /// Kills a PE: nothing more arrives from it or is executed by it.
    pub fn kill(&self, pe: Pe, incarnation: Incarnation) {
        let (who, mut state) = ((pe, incarnation), self.0.state.lock().unwrap());
        state.living.remove(&who);
        state.parcels.retain(|parcel| parcel.from != who && parcel.to != who);
        drop(state);
        self.0.moved.notify_all();
    }
}

/// Delivers some of the parcels that may arrive now.
fn deliver(state: &mut State, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let free = |parcel: &Parcel| {
            let post = |what: &What| matches!(what, What::Post(_));
            !state.parcels.iter().any(|other| {
                let same = (other.from, other.to) == (parcel.from, parcel.to);
                let posts = post(&other.what) && post(&parcel.what) && other.number < parcel.number;
                same && (other.fences < parcel.fences || posts)
            })
        };
        let may: Vec<usize> =
            (0..state.parcels.len()).filter(|&at| free(&state.parcels[at])).collect();
        let Some(&at) = (!may.is_empty()).then(|| random.one(&may)) else { return };
        let parcel = state.parcels.swap_remove(at);
        let Some((segment, view)) = state.living.get(&parcel.to).cloned() else { continue };
        let oldest =
            state.oldest.get(&(parcel.to, parcel.from.0)).copied().unwrap_or(Incarnation(0));
        if parcel.from.1 < oldest {
            continue;
        }
        match parcel.what {
            What::Put(offset, bytes) => match <[u8; 8]>::try_from(&bytes[..]) {
                Ok(word) if offset % 8 == 0 => {
                    let change = Change { how: Update::Store, operand: u64::from_ne_bytes(word) };
                    segment.update(WordAt { offset, bytes: 8 }, change);
                }
                _ => fill(segment, offset, &bytes),
            },
            What::Get(offset, len) => {
                state.answers.insert(parcel.number, segment.bytes(offset, len).to_vec());
            }
            What::Change(ask) => {
                let before = segment.update(ask.word, ask.change).expect("a word");
                state.answers.insert(parcel.number, before.to_ne_bytes().to_vec());
            }
            What::Post(ask) => {
                segment.update(ask.word, ask.change).expect("a word");
            }
        }
        view.arrived();
    }
}

/// The engine of a PE.
struct Sim {
    net: Arc<Net>,
    who: Who,
    /// The connected peers; true if the connection is broken.
    peers: Mutex<BTreeMap<Pe, (Incarnation, bool)>>,
    view: Arc<View>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Sim {:?}", self.who)
    }
}

impl Sim {
    fn peer(&self, pe: Pe) -> Result<Who, Lost> {
        match self.peers.lock().unwrap().get(&pe) {
            Some(&(incarnation, false)) => Ok((pe, incarnation)),
            Some(&(incarnation, true)) => Err(Lost { pe, incarnation }),
            None => Err(Lost { pe, incarnation: Incarnation(u32::MAX) }),
        }
    }

    fn send(&self, pe: Pe, what: What) -> Result<(u64, Who), Lost> {
        let to = self.peer(pe)?;
        // Parcels to a dead PE may vanish, but only until the view declares it dead.
        let gone = || self.view.gone(to.0, to.1);
        self.until(to, |state| (state.parcels.len() < DEPTH && !gone()).then_some(()))?;
        let mut state = self.net.state.lock().unwrap();
        if !state.living.contains_key(&self.who) {
            return Err(Lost { pe: to.0, incarnation: to.1 }); // this PE itself is dead
        }
        state.next += 1;
        let number = state.next;
        let fences = state.fences.get(&(self.who, to)).copied().unwrap_or(0);
        state.parcels.push(Parcel { number, from: self.who, to, fences, what });
        self.net.moved.notify_all();
        Ok((number, to))
    }

    /// Waits until `over`, or the peer is dead, or the connection to it is cut.
    fn until<T>(
        &self,
        (pe, incarnation): Who,
        mut over: impl FnMut(&mut MutexGuard<State>) -> Option<T>,
    ) -> Result<T, Lost> {
        let mut state = self.net.state.lock().unwrap();
        let begun = Instant::now();
        loop {
            if let Some(result) = over(&mut state) {
                return Ok(result);
            }
            let mut peers = self.peers.lock().unwrap();
            let dead = !state.living.contains_key(&(pe, incarnation));
            let cut = peers.get(&pe) != Some(&(incarnation, false));
            if dead || cut || self.view.gone(pe, incarnation) {
                if let Some(peer) = peers.get_mut(&pe).filter(|peer| peer.0 == incarnation) {
                    peer.1 = true;
                }
                return Err(Lost { pe, incarnation });
            }
            drop(peers);
            assert!(begun.elapsed() < super::node::LONG, "a parcel to {pe} is lost");
            state = self.net.moved.wait_timeout(state, Duration::from_millis(2)).unwrap().0;
        }
    }

    fn answer(&self, sent: Result<(u64, Who), Lost>) -> Result<Vec<u8>, Lost> {
        let (number, to) = sent?;
        self.until(to, |state| state.answers.remove(&number))
    }
}

impl Engine for Sim {
    fn address(&self) -> Vec<u8> {
        Vec::new()
    }

    fn connect(&self, pe: Pe, incarnation: Incarnation, _: &[u8]) -> Result<(), FabricError> {
        self.peers.lock().unwrap().insert(pe, (incarnation, false));
        self.net.state.lock().unwrap().oldest.insert((self.who, pe), incarnation);
        Ok(())
    }

    fn disconnect(&self, pe: Pe) {
        let Some((incarnation, _)) = self.peers.lock().unwrap().remove(&pe) else { return };
        let mut state = self.net.state.lock().unwrap();
        state.oldest.insert((self.who, pe), incarnation.next());
        state.parcels.retain(|parcel| (parcel.from, parcel.to.0) != (self.who, pe));
    }

    fn put(&self, writes: &[Write]) -> Result<(), Lost> {
        let mut first = Ok(());
        for write in writes {
            let sent = self.send(write.pe, What::Put(write.offset, write.from.to_vec()));
            first = first.and(sent.map(drop));
        }
        first
    }

    fn get(&self, reads: &mut [Read]) -> Result<(), Lost> {
        let send = |read: &Read| self.send(read.pe, What::Get(read.offset, read.into.len()));
        let sent: Vec<_> = reads.iter().map(send).collect();
        let mut first = Ok(());
        for (read, sent) in reads.iter_mut().zip(sent) {
            first = first.and(self.answer(sent).map(|bytes| read.into.copy_from_slice(&bytes)));
        }
        first
    }

    fn update(&self, asks: &[AmoRequest], before: &mut [u64]) -> Result<(), Lost> {
        let send = |ask: &AmoRequest| self.send(ask.pe, What::Change(*ask));
        let sent: Vec<_> = asks.iter().map(send).collect();
        let mut first = Ok(());
        for (before, sent) in before.iter_mut().zip(sent) {
            let word = |bytes: Vec<u8>| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
            first = first.and(self.answer(sent).map(|bytes| *before = word(bytes)));
        }
        first
    }

    fn post(&self, ask: AmoRequest) -> Result<(), Lost> {
        self.send(ask.pe, What::Post(ask)).map(drop)
    }

    fn fence(&self, peers: &[Pe]) -> Result<(), Lost> {
        let mut first = Ok(());
        for &pe in peers {
            match self.peer(pe) {
                Ok(to) => {
                    *self.net.state.lock().unwrap().fences.entry((self.who, to)).or_default() += 1
                }
                Err(Lost { incarnation: Incarnation(u32::MAX), .. }) => {}
                Err(lost) => first = first.and(Err(lost)),
            }
        }
        first
    }

    fn quiet(&self, peers: &[Pe]) -> Result<(), Lost> {
        let mut first = Ok(());
        for &pe in peers {
            let to = match self.peer(pe) {
                Ok(to) => to,
                Err(Lost { incarnation: Incarnation(u32::MAX), .. }) => continue,
                Err(lost) => {
                    first = first.and(Err(lost));
                    continue;
                }
            };
            let mine = |parcel: &Parcel| (parcel.from, parcel.to) == (self.who, to);
            let quiet = self.until(to, |state| {
                let lives = state.living.contains_key(&to);
                (lives && !state.parcels.iter().any(mine)).then_some(())
            });
            first = first.and(quiet);
        }
        first
    }

    fn wake(&self, _: Pe) {} // every parcel wakes all sleepers
}
