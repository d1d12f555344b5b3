//! Shrink mode: a PE adopts a view with another loss in the call that finds it, and reaches
//! agreements with the living PEs.
//!
//! ```text
//! adopt    disconnects lost PEs and unmaps their memory; calls continue in the new view
//! notify   runs the loss callback of each thread that set one, in its next call
//! agree    publishes a record in the own segment, which the other members read (`core/agree.rs`)
//! return   frees the records of a team for reuse once no member reads them; an active set zeroes
//!          them at the end of each call, as they lie in the program's `pSync`
//! ```
//!
//! Across an engine, a member writes its record into the mailboxes of those that wait for it. They
//! read it from the member only if one of another team is there, or, after a loss in an agreement,
//! after a pause: the member may then not know that they wait.
//!
//! A call does nothing on a lost PE, and is carried out on the others.
//!
//! Invariants: in such a job a PE works in the view that it has joined; no PE rolls back.
//!
//! Left out: the purposes of agreements ([`super::barrier`], `openshmem/living.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering, fence};

use raidshmem_core::agree::{
    AgreedBits, Agreement, CLEARED, DIGEST, LivingMembers, Proposal, Record, WORDS, Which,
    is_past_with,
};
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::store::protection::{Protection, ProtectionError};
use raidshmem_core::tree::post::digest;
use raidshmem_core::tree::{Location, Tree};
use raidshmem_core::view::State;
use raidshmem_fabric::{Read, Write};
use raidshmem_segment::mailbox;
use raidshmem_segment::waits::Waiting;
use tracing::info;

use super::World;
use super::world::fewer::{AgreementRow, LossCallback, SeenVersions};

/// The team of all PEs, in agreements.
pub const WORLD: u64 = 1;

/// The members of agreements, and the purpose of the next one.
#[derive(Debug, Clone)]
pub struct Members {
    /// The call, and the PEs that it waits for.
    pub waiting: Waiting,
    /// The identity of the set of members: the same number on all of them.
    pub team: u64,
    /// The purpose.
    pub gate: u8,
    /// Offset of each member's record in its segment, where other kinds of meetings keep words.
    pub offset: usize,
    /// The PEs.
    pub pes: Vec<Pe>,
    /// Index of this PE in `pes`.
    pub index: usize,
}

impl Members {
    /// Returns the key of their series of agreements.
    pub fn row(&self) -> AgreementRow {
        (self.team, self.offset)
    }

    /// Returns the number of the series in records: in a mailbox, nothing else tells a record of an
    /// active set from one with another `pSync`.
    fn series(&self) -> u64 {
        digest(&[self.team, self.offset as u64])
    }
}

/// The views and the agreements of the PEs that live.
#[derive(Clone, Copy)]
pub struct Survivors<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the views and the agreements of the PEs that live.
    #[inline]
    pub fn survivors(&self) -> Survivors<'_> {
        Survivors { world: self }
    }
}

impl<'a> Survivors<'a> {
    /// Adopts the newest view, and returns its number.
    pub fn adopt(self) -> ViewNumber {
        if self.world.members.faulted() {
            self.adopt_newest();
            self.report_losses();
        }
        self.world.members.joined()
    }

    #[cold]
    fn adopt_newest(self) {
        let _turn = self.world.fewer.adopting();
        let view = self.world.members.view();
        if view.number <= self.world.members.joined() {
            return;
        }
        self.world.comm.fence_off(&view);
        for pe in Pe::all(self.world.n_pes()).filter(|&pe| view.pes[pe.at()].state != State::Alive)
        {
            if self.world.fewer.lose(pe, view.number) {
                info!("PE {pe} is lost in view {}", view.number);
                self.world.segments.take_away(pe);
            }
        }
        self.world.join(&view);
    }

    /// Returns the protection among `living`, or the reason that there cannot be one; None in mode
    /// `none`.
    pub(crate) fn protection_of(
        self,
        living: &[Pe],
    ) -> Option<Result<Protection, ProtectionError>> {
        let nodes: Vec<usize> = self.world.job.node_of.iter().map(|&node| node as usize).collect();
        Protection::among(&self.world.settings, &nodes, &self.world.job.domains, living).transpose()
    }

    /// Calls the handler of this thread for each loss not yet reported to it. Until all threads
    /// with a handler have come here, no call takes the fast path around this one.
    fn report_losses(self) {
        let with_node = |pe: Pe| {
            self.world
                .members
                .joined_view()
                .as_ref()
                .is_some_and(|view| view.pes[pe.at()].with_node)
        };
        self.world.fewer.run_callbacks(with_node);
        if !self.world.fewer.has_unreported() {
            self.world.members.work_in(self.world.members.joined());
        }
    }

    /// Registers `callback` for this thread, to be called with each lost PE, and true if its node
    /// is lost.
    pub(crate) fn on_loss(self, callback: LossCallback) {
        self.world.fewer.add_callback(callback);
        self.world.members.work_in(ViewNumber(0)); // the next call runs the handlers that are due
    }

    /// Returns true if PE `pe` is lost in the newest view.
    pub fn is_lost_now(self, pe: Pe) -> bool {
        self.adopt();
        self.world.fewer.is_lost(pe)
    }

    /// Waits until all living members have come. Members that survive get equal decisions; nothing
    /// that depends on it may be visible to others before the next agreement.
    pub fn arrive(self, of: &Members) -> AgreedBits {
        self.come_to(of, (u64::MAX, 0), Agreement::ends_early)
    }

    /// Comes to the same decision as all living members, despite any loss meanwhile. It has the
    /// bits that all values have.
    pub fn agree(self, of: &Members, with: (u64, u64)) -> AgreedBits {
        self.come_to(of, with, |agreement| agreement)
    }

    fn come_to(
        self,
        of: &Members,
        (value, basis): (u64, u64),
        ends: impl FnOnce(Agreement) -> Agreement,
    ) -> AgreedBits {
        let row = of.row();
        let (number, previous) = self.world.fewer.next(row);
        let view = self.adopt();
        let acknowledged = self.world.fewer.count_acknowledged(&of.pes);
        let proposal = Proposal { value, basis, acknowledged };
        let which = Which { team: of.series(), number, gate: of.gate };
        let mut own = ends(Agreement::begin(which, proposal, previous, self.among(of, view)));
        let mut seen = SeenVersions::of(of.pes.len());
        self.world.wait_raw(|| of.waiting, || self.advance(of, &mut own, &mut seen));
        let decision = own.decision().expect("it is what was waited for");
        self.world.fewer.over(row, number, decision);
        let is_shown = || self.world.members.view_number().0 >= decision.view;
        self.world.wait_raw(|| of.waiting, is_shown);
        self.adopt();
        decision
    }

    /// Ends the agreements of the members; waits until no other one reads a record of this PE, so
    /// that another team may use its place.
    pub(crate) fn give_back(self, of: &Members) {
        self.wait_until_past(of);
        self.world.fewer.forget(of.row());
    }

    /// Ends a call of the members; waits until no other one reads a record of this PE, and zeroes
    /// its place, which is the program's.
    pub fn clear_record(self, of: &Members) {
        self.wait_until_past(of);
        self.show(of, CLEARED, std::iter::empty()); // all have been told of the last record
    }

    /// Returns the members without this PE.
    fn others(self, of: &Members) -> impl Iterator<Item = usize> {
        (0..of.pes.len()).filter(|&member| member != of.index)
    }

    /// Waits until no other member reads a record of this PE.
    fn wait_until_past(self, of: &Members) {
        let (next, _) = self.world.fewer.next(of.row());
        let last = Which { team: of.series(), number: next - 1, gate: of.gate };
        // Those that are no neighbours of this one were not told.
        self.tell(of, self.others(of));
        let mut past = vec![last.number == 0; of.pes.len()];
        past[of.index] = true;
        let mut seen = SeenVersions::of(of.pes.len());
        self.world.wait_raw(|| of.waiting, || self.are_past(of, last, (&mut past, &mut seen)));
    }

    /// Looks once at members that may still read records of agreement `last`; returns true if none
    /// does.
    fn are_past(
        self,
        of: &Members,
        last: Which,
        (past, seen): (&mut [bool], &mut SeenVersions),
    ) -> bool {
        let living = self.living(of, self.adopt());
        let awaited = (0..past.len()).filter(|&member| living[member] && !past[member]);
        let shown = self.records(of, awaited, (&mut *seen, false));
        for (member, shown) in shown {
            match shown.and_then(|words| is_past_with(last, words)) {
                Some(is_past) => past[member] = is_past,
                None => seen.forget_one(member), // read it again: another team's record may follow
            }
        }
        living.iter().zip(past).all(|(lives, past)| !lives || *past)
    }

    /// Returns, for each member, true if it lives in `view`.
    pub fn living(self, of: &Members, view: ViewNumber) -> Vec<bool> {
        of.pes.iter().map(|&pe| !self.world.fewer.was_lost(pe, view)).collect()
    }

    /// Returns the members that live in `view`, in their tree.
    fn among(self, of: &Members, view: ViewNumber) -> LivingMembers {
        self.world.fewer.among(of.row(), view, || {
            let living = self.living(of, view);
            let place = |(&pe, &lives): (&Pe, &bool)| {
                let node = self.world.job.node_of[pe.at()];
                lives.then(|| Location { machine: self.world.job.machine(node), node })
            };
            let places: Vec<_> = of.pes.iter().zip(&living).map(place).collect();
            let lost = living.iter().filter(|&&lives| !lives).count() as u32;
            let me = Pe::of(of.index);
            let narrow = Tree::of(me, &places);
            let tree = narrow.with_flat_nodes(me, &places);
            LivingMembers { view: view.0, tree, tells: narrow.children, lost }
        })
    }

    /// Looks once at the awaited members; returns true once there is a decision.
    fn advance(self, of: &Members, own: &mut Agreement, seen: &mut SeenVersions) -> bool {
        let view = self.adopt();
        if view.0 > own.view() {
            own.adopt(self.among(of, view));
            seen.forget(); // records seen in the old view count anew in this one
        }
        let mut asks = own.asks_again() && seen.pauses();
        loop {
            let awaited = own.awaited().iter().map(|member| member.at());
            for (member, shown) in self.records(of, awaited, (seen, asks)) {
                // If it is being changed, its next digest is news.
                let shown = shown.and_then(Record::of);
                shown.iter().for_each(|shown| own.observe(Pe::of(member), shown));
            }
            asks = false;
            let Some(readers) = own.advance() else { break };
            self.show(of, own.record().words(), own.told(readers).map(Pe::at));
        }
        own.decision().is_some()
    }

    /// Publishes these words in the place of this PE's record, for some members.
    fn show(self, of: &Members, words: [u64; WORDS], readers: impl Iterator<Item = usize>) {
        let place = self.world.segments.own().atomics::<WORDS>(of.offset).expect("own words");
        for (word, value) in place.iter().zip(words) {
            word.store(value, Ordering::Release); // the last one is what readers look for
        }
        self.tell(of, readers);
    }

    /// Tells members that this PE's record has changed: wakes those that read it, and writes it
    /// into the mailboxes of the others.
    fn tell(self, of: &Members, readers: impl Iterator<Item = usize>) {
        fence(Ordering::SeqCst); // publish before looking for sleepers
        let readers = readers.map(|member| of.pes[member]);
        let (remote, mapped): (Vec<Pe>, Vec<Pe>) =
            readers.partition(|&pe| self.world.segments.is_remote(pe));
        mapped.into_iter().for_each(|pe| self.world.segments.wake(pe));
        let living = |pe: &Pe| !self.world.fewer.is_lost(*pe);
        let remote: Vec<Pe> = remote.into_iter().filter(living).collect();
        let Some(engine) = self.world.comm.engine().filter(|_| !remote.is_empty()) else { return };
        let record = self.record_of(of, of.index).expect("own words");
        let words = record.into_iter().chain([self.world.fewer.next_record()]);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let entry = self.world.segments.layout().mailbox_of(self.world.me());
        let offset = entry + mailbox::place(self.world.members.incarnation()) + mailbox::RECORD;
        let write = |&pe: &Pe| Write { pe, offset, from: &bytes };
        // The last one may still be in progress. The view reports any loss meanwhile.
        let _ = engine.fence(&remote);
        let _ = engine.put_and_wake(&remote.iter().map(write).collect::<Vec<_>>());
    }

    /// Returns the records of those among some members that have changed; of remote ones, what they
    /// have written here, unless `asks`.
    fn records(
        self,
        of: &Members,
        members: impl Iterator<Item = usize>,
        (seen, asks): (&mut SeenVersions, bool),
    ) -> Vec<(usize, Option<[u64; WORDS]>)> {
        let (mut records, mut unknown) = (Vec::new(), Vec::new());
        for member in members {
            let Some(place) = self.place_of(of, member) else { continue };
            // Parts of a write may arrive in any order: a change of either is news.
            let version = place[DIGEST].load(Ordering::Acquire) ^ self.number_of(of.pes[member]);
            if !seen.is_news(member, version) && !asks {
                continue;
            }
            let words = std::array::from_fn(|at| place[at].load(Ordering::Acquire));
            let is_remote = self.world.segments.is_remote(of.pes[member]);
            let is_of_team =
                || Record::of(words).is_some_and(|shown| shown.which.team == of.series());
            match is_remote && (asks || !is_of_team()) {
                true => unknown.push(member),
                false => records.push((member, Some(words))),
            }
        }
        records.extend(self.remote_records(of, &unknown));
        records
    }

    /// Returns the number of a remote PE's record here; 0 for others.
    fn number_of(self, pe: Pe) -> u64 {
        if !self.world.segments.is_remote(pe) {
            return 0;
        }
        let incarnation = self.world.comm.known_incarnation(pe);
        self.world.segments.own().mailbox(pe).record_number(incarnation)
    }

    fn record_of(self, of: &Members, member: usize) -> Option<[u64; WORDS]> {
        let place = self.place_of(of, member)?;
        Some(std::array::from_fn(|at| place[at].load(Ordering::Acquire)))
    }

    /// Returns the words here in which a member publishes its records.
    fn place_of(self, of: &Members, member: usize) -> Option<&'a [AtomicU64; WORDS]> {
        let pe = of.pes[member];
        if self.world.segments.is_remote(pe) {
            let incarnation = self.world.comm.known_incarnation(pe);
            return Some(self.world.segments.own().mailbox(pe).record(incarnation));
        }
        self.world.segments.if_mapped(pe)?.atomics(of.offset)
    }

    /// Returns the records of `members`, all of them remote.
    fn remote_records(self, of: &Members, members: &[usize]) -> Vec<(usize, Option<[u64; WORDS]>)> {
        let Some(engine) = self.world.comm.engine().filter(|_| !members.is_empty()) else {
            return Vec::new();
        };
        let blank = |&member: &usize| (member, [0; WORDS * 8]);
        let mut shown: Vec<(usize, [u8; WORDS * 8])> = members.iter().map(blank).collect();
        let mut reads: Vec<Read> = Vec::with_capacity(shown.len());
        for (member, into) in &mut shown {
            reads.push(Read { pe: of.pes[*member], offset: of.offset, into });
        }
        if engine.get(&mut reads).is_err() {
            for read in &mut reads {
                let by_itself = engine.get(std::slice::from_mut(read));
                by_itself.unwrap_or_else(|_| read.into.fill(!0)); // no record: a view follows
            }
        }
        shown.into_iter().map(|(member, bytes)| (member, Some(words(&bytes)))).collect()
    }
}

/// Returns the words of bytes that were read.
fn words(bytes: &[u8; WORDS * 8]) -> [u64; WORDS] {
    let word = |at: usize| std::array::from_fn(|byte| bytes[at * 8 + byte]);
    std::array::from_fn(|at| u64::from_ne_bytes(word(at)))
}
