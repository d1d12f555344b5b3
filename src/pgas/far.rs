//! PEs that are not mapped here: reached through the job's engine, if it has one.
//!
//! A call that meets a broken connection waits for the view that says what became of the peer:
//! then the PE is in the faulted state, and what the call did not do is undone by the restart.
//!
//! Invariants: `World::base` of a PE is null exactly while it is out of reach of loads and stores;
//! an engine is connected to the incarnations of the view that was last given to `refresh`.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::world::{World, lock};
use crate::control::message::{Said, ToPe};
use crate::control::page::Page;
use crate::control::view::{State, View};
use crate::fabric::{Ear, Engine, Lost, Read};
use crate::segment::Segment;
use crate::segment::board::{ENTRY, Told, WORDS};
use crate::segment::update::{Change, Update, WordAt};
use crate::sys::socket::Channel;

/// The engine between nodes and what it needs to know of the peers.
#[derive(Debug)]
pub(super) struct Far {
    pub engine: Box<dyn Engine>,
    pub ear: Arc<dyn Ear>,
    pub links: std::sync::Mutex<Vec<Link>>,
}

/// What is known of a PE that may be out of reach.
#[derive(Debug, Default, Clone)]
pub(super) struct Link {
    /// The newest incarnation that said where it is reached.
    address: Option<(u32, Vec<u8>)>,
    /// The incarnation that the engine is connected to.
    connected: Option<u32>,
}

/// Asks the page, and tells the agent.
pub(super) struct Watch {
    pub page: Arc<Page>,
    pub channel: Option<Arc<Channel>>,
    pub own: &'static Segment,
}

impl Ear for Watch {
    fn gone(&self, pe: usize, incarnation: u32) -> bool {
        let member = self.page.member(pe);
        member.state != State::Alive || member.incarnation != incarnation
    }

    fn suspect(&self, pe: usize, incarnation: u32) {
        if let Some(channel) = &self.channel {
            // An agent that is gone takes this process with it.
            let _ = channel.send(&Said::Suspect { pe: pe as u32, incarnation }, &[]);
        }
    }

    fn arrived(&self) {
        fence(Ordering::SeqCst); // pairs with the announcement of a sleeper in `wait`
        self.own.words().bell.wake();
    }
}

impl std::fmt::Debug for dyn Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Ear")
    }
}

impl World {
    /// True if there are PEs that are reached through an engine, or may be.
    #[inline]
    pub fn has_engine(&self) -> bool {
        self.far.is_some()
    }

    /// True if PE `pe` is reached through the engine.
    #[inline]
    pub fn is_far(&self, pe: usize) -> bool {
        self.base(pe).is_null()
    }

    fn far(&self) -> &Far {
        self.far.as_ref().expect("a PE that is not mapped is reached through an engine")
    }

    /// The engine, where one is needed at all.
    #[inline]
    pub(super) fn engine(&self) -> Option<&dyn Engine> {
        self.far.as_ref().map(|far| &*far.engine)
    }

    /// Lets the engine do what it has to; called by those who wait.
    #[inline]
    pub(super) fn progress(&self) {
        if let Some(engine) = self.engine() {
            engine.progress();
        }
    }

    /// This thread, which waits, sleeps from now on.
    pub(super) fn rest(&self) {
        if let Some(engine) = self.engine() {
            engine.rest();
        }
    }

    /// Nobody needs this process any more.
    pub(super) fn close(&self) {
        if let Some(engine) = self.engine() {
            engine.close();
        }
    }

    /// Waits for the view that says what became of the peer.
    #[cold]
    fn wait_for_verdict(&self, lost: Lost) {
        let ear = &self.far().ear;
        self.wait_raw(|| ear.gone(lost.pe, lost.incarnation));
    }

    /// The result, or after a loss the other value, once the view tells of it.
    fn or<T>(&self, result: Result<T, Lost>, otherwise: T) -> T {
        result.unwrap_or_else(|lost| {
            self.wait_for_verdict(lost);
            otherwise
        })
    }

    /// Copies bytes to PE `pe`, which is far.
    pub fn far_put(&self, pe: usize, offset: usize, from: &[u8]) {
        let engine = &self.far().engine;
        self.or(engine.put(pe, offset, from), ());
        engine.wake(pe);
    }

    /// Copies bytes from PE `pe`, which is far; zeroes if it is lost meanwhile.
    pub fn far_get(&self, pe: usize, offset: usize, into: &mut [u8]) {
        self.pull(&mut [Read { pe, offset, into }]);
    }

    /// Reads from several far PEs at a time. If one of them is lost, all that was to be read is
    /// zeroes, and the view has changed when the call returns.
    pub fn pull(&self, reads: &mut [Read]) {
        if let Err(lost) = self.far().engine.get(reads) {
            self.wait_for_verdict(lost);
            reads.iter_mut().for_each(|read| read.into.fill(0));
        }
    }

    /// Updates a word of PE `pe`, which is far; what was there, zero if it is lost meanwhile
    /// and in the faulted state.
    pub fn far_update(&self, pe: usize, word: WordAt, change: Change) -> u64 {
        if self.faulted() {
            return 0;
        }
        self.or(self.far().engine.update(pe, word, change), 0)
    }

    /// As `far_update`, without waiting for it.
    pub fn far_post(&self, pe: usize, word: WordAt, change: Change) {
        if !self.faulted() {
            self.or(self.far().engine.post(pe, word, change), ());
        }
    }

    /// Orders transfers before those that follow.
    #[inline]
    pub fn fence(&self) {
        fence(Ordering::Release);
        if let Some(engine) = self.engine() {
            self.or(engine.fence(), ());
        }
    }

    /// Completes outstanding transfers. Copies to mapped peers are synchronous, so a full fence is
    /// all of it for those.
    #[inline]
    pub fn quiet(&self) {
        fence(Ordering::SeqCst);
        if let Some(engine) = self.engine() {
            self.or(engine.quiet(), ());
        }
    }

    // ---- the board ----------------------------------------------------------------------------

    /// What PE `pe` tells all others.
    pub(crate) fn told(&self, pe: usize) -> Told {
        match self.near(pe) {
            Some(segment) => segment.told(),
            None => self.own.board(pe).read(),
        }
    }

    /// How far PE `pe` is in a recovery.
    pub(crate) fn step_of(&self, pe: usize) -> u64 {
        match self.near(pe) {
            Some(segment) => segment.words().step.load(Ordering::SeqCst),
            None => self.own.board(pe).step(),
        }
    }

    /// Writes what this PE tells into the boards of the far PEs of `view`. All transfers before it
    /// are complete when any of them sees it. A loss meanwhile is for the view to tell.
    pub(crate) fn publish(&self, view: &View) {
        let Some(engine) = self.engine() else { return };
        let words = self.own.told().words();
        let mut bytes = [0; WORDS * 8];
        for (at, word) in words.iter().enumerate() {
            bytes[at * 8..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        let at = self.layout().board + self.me() * ENTRY;
        let alive = |pe: &usize| view.pes[*pe].state == State::Alive && self.is_far(*pe);
        let far: Vec<usize> = (0..self.n_pes()).filter(alive).collect();
        for &pe in &far {
            let _ = engine.put(pe, at + 8, &bytes[8..]);
        }
        let _ = engine.quiet();
        let word = WordAt { offset: at, bytes: 8 };
        for &pe in &far {
            let _ = engine.post(pe, word, Change { how: Update::Store, operand: words[0] });
            engine.wake(pe);
        }
    }

    // ---- views --------------------------------------------------------------------------------

    /// True if PE `pe` of `view` can be mapped here.
    pub(super) fn mappable(&self, view: &View, pe: usize) -> bool {
        self.far.is_none() || view.pes[pe].node == view.pes[self.me()].node
    }

    /// Takes note of an address.
    pub(super) fn learn(&self, pe: usize, incarnation: u32, address: Vec<u8>) {
        let Some(far) = &self.far else { return };
        if let Some(link) = lock(&far.links).get_mut(pe) {
            let newer = link.address.as_ref().is_none_or(|(known, _)| *known < incarnation);
            if newer {
                link.address = Some((incarnation, address));
            }
        }
    }

    /// True if the address of a far PE of `view` has not come yet.
    pub(super) fn awaits_address(&self, view: &View, pe: usize) -> bool {
        let Some(far) = &self.far else { return false };
        let wanted = view.pes[pe].incarnation;
        let links = lock(&far.links);
        let known = links[pe].address.as_ref().is_some_and(|(known, _)| *known >= wanted);
        !known && !self.mappable(view, pe)
    }

    /// Disconnects from those who are no more in `view`: nothing of theirs arrives from now on.
    pub(super) fn fence_off(&self, view: &View) {
        let Some(far) = &self.far else { return };
        for (pe, link) in lock(&far.links).iter_mut().enumerate() {
            let member = view.pes[pe];
            let over = |connected: u32| {
                member.state != State::Alive
                    || member.incarnation != connected
                    || self.mappable(view, pe)
            };
            if link.connected.is_some_and(over) {
                far.engine.disconnect(pe);
                link.connected = None;
            }
        }
    }

    /// Connects to the far PEs that are alive in `view`.
    pub(super) fn connect(&self, view: &View) {
        let Some(far) = &self.far else { return };
        for (pe, link) in lock(&far.links).iter_mut().enumerate() {
            let wanted = view.pes[pe].incarnation;
            if view.pes[pe].state != State::Alive
                || self.mappable(view, pe)
                || link.connected == Some(wanted)
            {
                continue;
            }
            self.put_out_of_reach(pe);
            if let Some((known, address)) = &link.address
                && *known == wanted
            {
                match far.engine.connect(pe, wanted, address) {
                    Ok(()) => link.connected = Some(wanted),
                    Err(error) => self.condemn(&format!("PE {pe} cannot be reached: {error}")),
                }
            }
        }
    }

    /// What the agent said besides memory.
    pub(super) fn heed(&self, message: ToPe) {
        if let ToPe::Address { pe, incarnation, address } = message {
            self.learn(pe as usize, incarnation, address);
        }
    }
}
