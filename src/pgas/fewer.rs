//! Going on with fewer: a PE adopts a view with another loss in the call that finds it, and comes
//! to agreements with those that live.
//!
//! ```text
//! adopt    connections to the lost are cut, their memory is taken away, calls go on in the view
//! tell     threads that want to be called of a loss are, each by itself, in its next call
//! agree    a record in the own segment, which the other members read (`core/agree.rs`)
//! return   a team ends: another may have the place of its records when nobody reads them any more;
//!          an active set zeroes them at the end of each call, as they lie in the program's `pSync`
//! ```
//!
//! Where an engine lies in between, a member posts to each of the others that its record is another
//! one, and they read it once for each post: nobody polls over a network.
//!
//! A call that concerns a lost PE does nothing there, and one that concerns others is carried out.
//!
//! Invariants: in such a job a PE works in the view that it has joined; nobody goes back.
//!
//! Left out: what an agreement is for ([`super::barrier`], `openshmem/living.rs`).

#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

use raidshmem_core::agree::{
    AgreedBits, Agreement, CLEARED, Proposal, Record, WORDS, Which, is_past_with,
};
use raidshmem_core::layout::MAILBOX_ENTRY;
use raidshmem_core::quantity::{Pe, ViewNumber};
use raidshmem_core::store::protection::{Protection, ProtectionError};
use raidshmem_core::update::{Change, Update, WordAt};
use raidshmem_core::view::State;
use raidshmem_fabric::{Ask, Read};
use raidshmem_segment::mailbox;
use raidshmem_segment::waits::Waiting;
use tracing::info;

use super::World;
use super::world::fewer::{Heard, Row, Told};

/// The team of all PEs, in agreements.
pub const WORLD: u64 = 1;

/// Members that come to agreements, and what they come together for.
#[derive(Debug, Clone)]
pub struct Members {
    /// The call, and whom it waits for.
    pub waiting: Waiting,
    /// Which members they are: the same number on all of them.
    pub team: u64,
    /// What they come together for.
    pub gate: u8,
    /// Where the record of each is in its segment, in the place of words for other ways of meeting.
    pub offset: usize,
    /// The PEs.
    pub pes: Vec<Pe>,
    /// Which of them this PE is.
    pub index: usize,
}

impl Members {
    /// The row of their agreements.
    pub(crate) fn row(&self) -> Row {
        (self.team, self.offset)
    }
}

impl World {
    /// Adopts the newest view, and says which it is.
    pub(crate) fn adopt(&self) -> ViewNumber {
        if self.members.faulted() {
            self.adopt_newest();
            self.tell_of_losses();
        }
        self.members.joined()
    }

    #[cold]
    fn adopt_newest(&self) {
        let _turn = self.fewer.adopting();
        let view = self.members.view();
        if view.number <= self.members.joined() {
            return;
        }
        self.fence_off(&view);
        for pe in Pe::all(self.n_pes()).filter(|&pe| view.pes[pe.at()].state != State::Alive) {
            if self.fewer.lose(pe, view.number) {
                info!("PE {pe} is lost in view {}", view.number);
                self.segments.take_away(pe);
            }
        }
        self.join(&view);
    }

    /// How `living` protect each other, or why they cannot; None in mode `none`.
    pub(crate) fn protection_of(
        &self,
        living: &[Pe],
    ) -> Option<Result<Protection, ProtectionError>> {
        let nodes: Vec<usize> = self.job.node_of.iter().map(|&node| node as usize).collect();
        Protection::among(&self.settings, &nodes, &self.job.domains, living).transpose()
    }

    /// Calls the handler of this thread for each loss it was not told of. Until all threads with a
    /// handler have come here, no call takes the short way that passes by.
    fn tell_of_losses(&self) {
        let with_node = |pe: Pe| {
            self.members.joined_view().as_ref().is_some_and(|view| view.pes[pe.at()].with_node)
        };
        self.fewer.tell(with_node);
        if !self.fewer.is_anybody_untold() {
            self.members.work_in(self.members.joined());
        }
    }

    /// From now on this thread calls `told` of each PE that is lost, and whether its node is.
    pub(crate) fn on_loss(&self, told: Told) {
        self.fewer.listen(told);
        self.members.work_in(ViewNumber(0)); // the next call looks who has to be told
    }

    /// True if PE `pe` is lost in the newest view.
    pub fn is_lost_now(&self, pe: Pe) -> bool {
        self.adopt();
        self.fewer.is_lost(pe)
    }

    /// All members that live come to the same decision, whoever is lost meanwhile. It has the bits
    /// that all values have.
    pub fn agree(&self, of: &Members, (value, basis): (u64, u64)) -> AgreedBits {
        let row = of.row();
        let (number, previous) = self.fewer.next(row);
        let view = self.adopt();
        let acknowledged = of.pes.iter().filter(|&&pe| self.fewer.is_acknowledged(pe)).count();
        let proposal = Proposal { value, basis, acknowledged: acknowledged as u32 };
        let which = Which { team: of.team, number, gate: of.gate };
        let standing = (view.0, self.living(of, view));
        let mut own = Agreement::begin((which, of.index), proposal, previous, standing);
        self.show(of, own.record().words());
        let mut heard = Heard::of(of.pes.len());
        self.wait_raw(|| of.waiting, || self.advance(of, &mut own, &mut heard));
        let decision = own.decision().expect("it is what was waited for");
        self.fewer.over(row, number, decision);
        let is_shown = || self.members.view_number().0 >= decision.view;
        self.wait_raw(|| of.waiting, is_shown);
        self.adopt();
        decision
    }

    /// The members come to no agreement any more; waits until no other one reads a record of this
    /// PE, so that its place may be another team's.
    pub(crate) fn give_back(&self, of: &Members) {
        self.wait_until_past(of);
        self.fewer.forget(of.row());
    }

    /// A call of the members is over; waits until no other one reads a record of this PE, and
    /// zeroes its place, which is the program's.
    pub(crate) fn clear_record(&self, of: &Members) {
        self.wait_until_past(of);
        self.show(of, CLEARED);
    }

    /// Waits until no other member reads a record of this PE.
    fn wait_until_past(&self, of: &Members) {
        let (next, _) = self.fewer.next(of.row());
        let last = Which { team: of.team, number: next - 1, gate: of.gate };
        let mut past = vec![last.number == 0; of.pes.len()];
        past[of.index] = true;
        let mut heard = Heard::of(of.pes.len());
        self.wait_raw(|| of.waiting, || self.are_past(of, last, (&mut past, &mut heard)));
    }

    /// Looks once at those that may still read records of agreement `last`; true if nobody does.
    fn are_past(
        &self,
        of: &Members,
        last: Which,
        (past, heard): (&mut [bool], &mut Heard),
    ) -> bool {
        let living = self.living(of, self.adopt());
        let awaited = (0..past.len()).filter(|&member| living[member] && !past[member]);
        let shown = self.records(of, awaited, heard);
        for (member, shown) in shown {
            match shown.and_then(|words| is_past_with(last, words)) {
                Some(is_past) => past[member] = is_past,
                None => heard.forget_one(member), // it may tell another team of the next
            }
        }
        living.iter().zip(past).all(|(lives, past)| !lives || *past)
    }

    /// Which of the members live in `view`.
    pub fn living(&self, of: &Members, view: ViewNumber) -> Vec<bool> {
        of.pes.iter().map(|&pe| !self.fewer.was_lost(pe, view)).collect()
    }

    /// Looks once at those that are awaited; true once there is a decision.
    fn advance(&self, of: &Members, own: &mut Agreement, heard: &mut Heard) -> bool {
        let before = *own.record();
        let view = self.adopt();
        if view.0 > own.view() {
            own.adopt(view.0, self.living(of, view));
            heard.forget(); // what was of another view is of this one now
        }
        loop {
            for (member, shown) in self.records(of, own.awaited(), heard) {
                shown.and_then(Record::of).iter().for_each(|shown| own.observe(member, shown));
            }
            if !own.advance() {
                break;
            }
        }
        if *own.record() != before {
            self.show(of, own.record().words());
        }
        own.decision().is_some()
    }

    /// Shows these words in the place of its record.
    fn show(&self, of: &Members, words: [u64; WORDS]) {
        for (at, operand) in words.into_iter().enumerate() {
            let word = WordAt { offset: of.offset + at * 8, bytes: 8 };
            self.segments.own().update(word, Change { how: Update::Store, operand });
        }
        fence(Ordering::SeqCst); // before the looks for sleepers
        let others = of.pes.iter().enumerate().filter(|(member, _)| *member != of.index);
        for (_, &pe) in others {
            match self.comm.engine().filter(|_| self.segments.is_far(pe)) {
                None => self.segments.wake(pe),
                Some(_) if self.fewer.is_lost(pe) => {}
                // A loss meanwhile is for the view to tell.
                Some(engine) => _ = engine.post(self.news_for(pe)),
            }
        }
    }

    /// That the record of this PE is another one.
    fn news_for(&self, pe: Pe) -> Ask {
        let entry = self.segments.layout().mailbox + self.me().at() * MAILBOX_ENTRY;
        let offset = entry + mailbox::place(self.members.incarnation()) + mailbox::NEWS;
        let (word, how) = (WordAt { offset, bytes: 8 }, Update::Add);
        Ask { pe, word, change: Change { how, operand: 1 } }
    }

    /// What some members show; of those that are far, where there are news.
    fn records(
        &self,
        of: &Members,
        members: impl Iterator<Item = usize>,
        heard: &mut Heard,
    ) -> Vec<(usize, Option<[u64; WORDS]>)> {
        let is_far = |member: &usize| self.segments.is_far(of.pes[*member]);
        let (far, near): (Vec<usize>, Vec<usize>) = members.partition(is_far);
        let near = near.into_iter().map(|member| (member, self.record_of(of, member)));
        near.chain(self.far_records(of, &far, heard)).collect()
    }

    fn record_of(&self, of: &Members, member: usize) -> Option<[u64; WORDS]> {
        let segment = self.segments.near(of.pes[member])?;
        let load = Change { how: Update::Load, operand: 0 };
        let mut words = [0; WORDS];
        for (at, word) in words.iter_mut().enumerate() {
            *word = segment.update(WordAt { offset: of.offset + at * 8, bytes: 8 }, load)?;
        }
        Some(words)
    }

    /// What those of `members` show, all far, of whom there are news.
    fn far_records(
        &self,
        of: &Members,
        members: &[usize],
        heard: &mut Heard,
    ) -> Vec<(usize, Option<[u64; WORDS]>)> {
        let Some(engine) = self.comm.engine() else { return Vec::new() };
        let mut is_news = |member: &&usize| {
            let pe = of.pes[**member];
            heard.is_news(**member, self.segments.own().mailbox(pe).news(self.heard(pe)))
        };
        let room = |&member: &usize| (member, [0; WORDS * 8]);
        let mut shown: Vec<(usize, [u8; WORDS * 8])> =
            members.iter().filter(&mut is_news).map(room).collect();
        if shown.is_empty() {
            return Vec::new();
        }
        let mut reads: Vec<Read> = Vec::with_capacity(shown.len());
        for (member, into) in &mut shown {
            reads.push(Read { pe: of.pes[*member], offset: of.offset, into });
        }
        if engine.get(&mut reads).is_err() {
            for read in &mut reads {
                let by_itself = engine.get(std::slice::from_mut(read));
                by_itself.unwrap_or_else(|_| read.into.fill(!0)); // no record; a view tells
            }
        }
        shown.into_iter().map(|(member, bytes)| (member, Some(words(&bytes)))).collect()
    }
}

/// Words of bytes that were read.
fn words(bytes: &[u8; WORDS * 8]) -> [u64; WORDS] {
    let word = |at: usize| std::array::from_fn(|byte| bytes[at * 8 + byte]);
    std::array::from_fn(|at| u64::from_ne_bytes(word(at)))
}
