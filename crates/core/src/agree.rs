//! Agreement among the members of a team, regardless of deaths.
//!
//! The agreement is a value for one member. Its inputs are records of other members and views, its
//! outputs a record to publish and finally a decision. The views are the job's: all members see
//! them in the same order, and a member lost in a view never acts again. Members meet in a
//! [`Tree`] over the members that live in the view, in two trips up and down. On a node, where they
//! read each other's records at any time, all are children of one:
//!
//! ```text
//! gather    once each child has: publish the inputs of the own subtree, added up
//! lock      the root decides from all inputs; each member publishes the decision that its parent
//!           published
//! held      once each child has: publish that the subtree has locked it
//! done      the decision is final: every live member has locked it; published from the root down
//! ```
//!
//! A new view restarts at the first step in the tree of that view, but a member keeps its last
//! lock, and a root with one decides on it. A decision stands only once all live members have
//! locked it, each root of a later view among them. So if a member decided and then died, the other
//! members reach the same decision. A member that finds a neighbour done adopts its decision. A
//! member is at most one agreement ahead, and its record holds the previous decision.
//!
//! An agreement may also end after the first trip ([`Agreement::ends_early`]): its decision is then
//! equal on members that live, and a member that decided and died may have had another one.
//!
//! A member publishes for those that its record may bring forward, its parent or its children:
//! [`Agreement::advance`] returns which. A member that is done in an older view may not know its
//! neighbours of a later one, so a member that has published a record in an older view asks again
//! by itself ([`Agreement::asks_again`]).
//!
//! A team ends after its last agreement, and another team may then reuse the place of its records.
//! Each member waits until it has seen that no other living member needs a record any more
//! ([`is_past`]). This requires no extra action of the other members. A temporary place is then
//! zeroed ([`CLEARED`]), so zeroes mean that a member is past its last agreement.
//!
//! Invariants: decisions of one agreement are equal on all members that reach one, including
//! members that die later. The decision includes the proposal of every member that lives in its
//! view; the proposal of a lost member is included on all members or on none. Without a loss a
//! member tells its parent and at most [`tree::CHILDREN_MAX`](crate::tree::CHILDREN_MAX) others,
//! twice each.
//!
//! Left out: location and reading of records ([`Record::of`] detects torn reads).

use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;
use crate::tree::Tree;
use crate::tree::post::digest;

#[cfg(test)]
mod explore;
#[cfg(test)]
mod tests;

/// The input of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Proposal {
    /// Proposed bits; the decision keeps those common to all members.
    pub value: u64,
    /// The view in which the member made the object that it is ready to commit; 0 if it made none.
    pub basis: u64,
    /// Number of lost team members that the member knows and has acknowledged.
    pub acknowledged: u32,
}

impl Proposal {
    /// Adds the proposals of other members. Different bases leave none.
    fn add(&mut self, other: &Proposal) {
        self.value &= other.value;
        self.basis = if self.basis == other.basis { self.basis } else { 0 };
        self.acknowledged = self.acknowledged.min(other.acknowledged);
    }

    /// Returns the decision on the proposals of all members that live in a view, added up.
    fn decision(&self, (view, lost): (u64, u32)) -> AgreedBits {
        let Proposal { value, basis, acknowledged } = *self;
        AgreedBits { view, value, even: basis != 0, lost, acknowledged }
    }
}

/// The common decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AgreedBits {
    /// View in which the decision was taken.
    pub view: u64,
    /// Bits common to all proposals.
    pub value: u64,
    /// True if all proposals have the same basis.
    pub even: bool,
    /// Number of members that are lost in that view.
    pub lost: u32,
    /// Number of lost members that all members have acknowledged.
    pub acknowledged: u32,
}

impl AgreedBits {
    /// True if some living member does not know of every loss.
    pub fn has_news(&self) -> bool {
        self.acknowledged < self.lost
    }

    fn words(&self) -> [u64; 3] {
        let flags = u64::from(self.lost) << 32 | u64::from(self.acknowledged) << 1;
        [self.view, self.value, flags | u64::from(self.even)]
    }

    fn of([view, value, flags]: [u64; 3]) -> AgreedBits {
        let (lost, acknowledged) = ((flags >> 32) as u32, (flags as u32) >> 1);
        AgreedBits { view, value, even: flags & 1 == 1, lost, acknowledged }
    }
}

/// The progress of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgreementPhase {
    /// It gathers the proposals of its subtree; not published.
    Gathering = 1,
    /// Its subtree has proposed.
    Gathered,
    /// It has locked the decision in this view.
    Locked,
    /// Its subtree has.
    Held,
    /// The decision stands.
    Done,
}

/// The identity of an agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Which {
    /// The team; a team that reuses the words of another has a different number.
    pub team: u64,
    /// Number of the agreement in the team, from 1.
    pub number: u64,
    /// The purpose of the agreement; members with different purposes do not agree.
    pub gate: u8,
}

/// The data that a member publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    /// The agreement that the member is in.
    pub which: Which,
    /// Progress of the member.
    pub phase: AgreementPhase,
    /// View in which this record was published.
    pub view: u64,
    /// Input of the member, or of its subtree.
    pub proposal: Proposal,
    /// The locked decision, if the phase has one.
    pub decision: AgreedBits,
    /// The decision of the previous agreement.
    pub previous: AgreedBits,
}

/// Number of words of a record.
pub const WORDS: usize = 13;
/// The index of the word that proves that the others belong together.
pub const DIGEST: usize = WORDS - 1;

impl Record {
    /// Packs the record into words; the last one proves that they belong to one record.
    pub fn words(&self) -> [u64; WORDS] {
        let phase = self.phase as u64;
        let mut words = [0; WORDS];
        words[0] = self.which.team;
        words[1] = self.which.number;
        words[2] = self.view << 16 | u64::from(self.which.gate) << 8 | phase;
        words[3] = self.proposal.value;
        words[4] = self.proposal.basis;
        words[5] = self.proposal.acknowledged.into();
        words[6..9].copy_from_slice(&self.decision.words());
        words[9..12].copy_from_slice(&self.previous.words());
        words[DIGEST] = digest(&words[..DIGEST]);
        words
    }

    /// Unpacks a record; None if the words are not a record, or were read during a change.
    pub fn of(words: [u64; WORDS]) -> Option<Record> {
        let [team, number, state, value, basis, acknowledged, ..] = words;
        let phase = match state & 0xff {
            2 => AgreementPhase::Gathered,
            3 => AgreementPhase::Locked,
            4 => AgreementPhase::Held,
            5 => AgreementPhase::Done,
            _ => return None,
        };
        let decision = |at: usize| AgreedBits::of([words[at], words[at + 1], words[at + 2]]);
        (words[DIGEST] == digest(&words[..DIGEST])).then(|| Record {
            which: Which { team, number, gate: (state >> 8 & 0xff) as u8 },
            phase,
            view: state >> 16,
            proposal: Proposal { value, basis, acknowledged: acknowledged as u32 },
            decision: decision(6),
            previous: decision(9),
        })
    }
}

/// The words of a place whose member no longer needs a record there.
pub const CLEARED: [u64; WORDS] = [0; WORDS];

/// True if the member whose place has these words needs no record of `last` or earlier. Either it
/// holds the decision, or its place already belongs to another team, or it has zeroed the place,
/// which requires that it has seen this condition on all members. None if the words were read
/// during a change.
///
/// Only valid for a caller that has reached the decision: then all members have published a record
/// of it.
pub fn is_past_with(last: Which, words: [u64; WORDS]) -> Option<bool> {
    if words == CLEARED {
        return Some(true);
    }
    Record::of(words).map(|shown| is_past(last, &shown))
}

/// Like [`is_past_with`], for a record.
pub fn is_past(last: Which, shown: &Record) -> bool {
    if breaks(Mutant::PlaceTakenEarly) {
        return true;
    }
    let of_another = shown.which.team != last.team;
    let (own, theirs) = (last.number, shown.which.number);
    of_another || theirs > own || theirs == own && shown.phase == AgreementPhase::Done
}

/// The members of a view in their tree, from the perspective of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LivingMembers {
    /// The view.
    pub view: u64,
    /// The tree over its living members; a PE in it is the index of a member.
    pub tree: Tree,
    /// The members that this one tells of a decision: its children, or those below it in a tree of
    /// smaller degree, if members read their parent's record at any time.
    pub tells: Vec<Pe>,
    /// The number of members that are lost in the view.
    pub lost: u32,
}

/// The members that a new record may bring forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Readers {
    /// The parent.
    pub parent: bool,
    /// The children.
    pub children: bool,
}

/// The state of one member in one agreement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agreement {
    among: LivingMembers,
    /// The own input.
    own: Proposal,
    /// The decision that it locked last, in an earlier view.
    lock: Option<AgreedBits>,
    /// The children that have not brought this member forward yet.
    awaited: Vec<Pe>,
    record: Record,
    /// True if the decision stands as soon as it is taken.
    is_early: bool,
    /// True if it has published a record in an earlier view.
    has_restarted: bool,
    /// The members for which the record is not published yet.
    news: Readers,
}

impl Agreement {
    /// Starts an agreement of a member; `previous` is the decision of the previous agreement.
    pub fn begin(
        which: Which,
        own: Proposal,
        previous: AgreedBits,
        among: LivingMembers,
    ) -> Agreement {
        let (phase, decision) = (AgreementPhase::Gathering, AgreedBits::default());
        let record = Record { which, phase, view: among.view, proposal: own, decision, previous };
        let awaited = among.tree.children.clone();
        let (is_early, has_restarted, news) = (false, false, Readers::default());
        Agreement { among, own, lock: None, awaited, record, is_early, has_restarted, news }
    }

    /// Returns this agreement with a decision that stands as soon as it is taken: no member may
    /// make it visible outside of the team before a later agreement.
    pub fn ends_early(self) -> Agreement {
        Agreement { is_early: true, ..self }
    }

    /// Returns the record that this member publishes when [`Self::advance`] returns readers.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the current view.
    pub fn view(&self) -> u64 {
        self.record.view
    }

    /// Adopts the next view.
    pub fn adopt(&mut self, among: LivingMembers) {
        if self.record.phase == AgreementPhase::Done || among.view <= self.record.view {
            return;
        }
        if self.record.phase >= AgreementPhase::Locked {
            self.lock = Some(self.record.decision).filter(|_| !breaks(Mutant::LockForgotten));
        }
        let Record { which, previous, .. } = self.record;
        let (lock, is_early) = (self.lock, self.is_early);
        let has_restarted = self.has_restarted || self.record.phase != AgreementPhase::Gathering;
        let anew = Agreement::begin(which, self.own, previous, among);
        *self = Agreement { lock, is_early, has_restarted, ..anew };
    }

    /// Returns the members whose records may allow progress.
    pub fn awaited(&self) -> &[Pe] {
        match self.record.phase {
            AgreementPhase::Gathering | AgreementPhase::Locked => &self.awaited,
            AgreementPhase::Gathered | AgreementPhase::Held => self.among.tree.parent.as_slice(),
            AgreementPhase::Done => &[],
        }
    }

    /// Returns the members that must be told of a new record: all neighbours, if they may not know
    /// of its decision from others.
    pub fn told(&self, readers: Readers) -> impl Iterator<Item = Pe> {
        let LivingMembers { tree, tells, .. } = &self.among;
        let parent = tree.parent.into_iter().filter(move |_| readers.parent);
        let below = tells.iter().filter(move |_| readers.children);
        let is_for_all = readers.parent && readers.children;
        let children =
            tree.children.iter().filter(move |child| is_for_all && !tells.contains(child));
        parent.chain(below.chain(children).copied())
    }

    /// Returns true if a member that is done in an older view may be awaited, and not know of it.
    pub fn asks_again(&self) -> bool {
        let may_wait = self.has_restarted && self.record.phase != AgreementPhase::Done;
        may_wait && !breaks(Mutant::NotAskedAgain)
    }

    /// Observes the record that an awaited member has published.
    pub fn observe(&mut self, member: Pe, shown: &Record) {
        let (own, theirs) = (self.record.which, shown.which);
        if theirs.team != own.team || self.record.phase == AgreementPhase::Done {
            return;
        }
        if theirs.number == own.number + 1 {
            return self.finish(shown.previous);
        }
        if theirs != own {
            return;
        }
        let is_parent = self.among.tree.parent == Some(member);
        match (self.record.phase, shown.phase) {
            (phase, AgreementPhase::Done) => {
                self.finish(shown.decision);
                let is_expected = phase == AgreementPhase::Held || self.is_early;
                self.news.parent = !(is_expected && is_parent);
            }
            _ if shown.view != self.record.view => {}
            (AgreementPhase::Gathered, AgreementPhase::Locked | AgreementPhase::Held) => {
                self.hold(shown.decision);
            }
            (AgreementPhase::Gathering, AgreementPhase::Gathered) => {
                self.hear(member);
                self.record.proposal.add(&shown.proposal);
            }
            (AgreementPhase::Locked, AgreementPhase::Held) => self.hear(member),
            _ => {}
        }
    }

    /// Advances as far as possible. Returns the members that the record must be published for, if
    /// it has changed.
    pub fn advance(&mut self) -> Option<Readers> {
        let is_root = self.among.tree.parent.is_none();
        while self.awaited.is_empty() {
            match self.record.phase {
                AgreementPhase::Gathering if is_root => {
                    let standing = (self.among.view, self.among.lost);
                    let fresh = || self.record.proposal.decision(standing);
                    self.hold(self.lock.unwrap_or_else(fresh));
                }
                AgreementPhase::Gathering => {
                    (self.record.phase, self.news.parent) = (AgreementPhase::Gathered, true);
                }
                AgreementPhase::Locked if is_root || breaks(Mutant::DoneUnlocked) => {
                    (self.record.phase, self.news.children) = (AgreementPhase::Done, true);
                }
                AgreementPhase::Locked => {
                    (self.record.phase, self.news.parent) = (AgreementPhase::Held, true);
                }
                _ => break,
            }
        }
        let news = std::mem::take(&mut self.news);
        (news != Readers::default()).then_some(news)
    }

    /// Returns the decision, once it stands and [`Self::advance`] has said for whom to publish it.
    pub fn decision(&self) -> Option<AgreedBits> {
        let is_over = self.record.phase == AgreementPhase::Done && self.news == Readers::default();
        is_over.then_some(self.record.decision)
    }

    /// Locks the decision.
    fn hold(&mut self, decision: AgreedBits) {
        let phase = if self.is_early { AgreementPhase::Done } else { AgreementPhase::Locked };
        (self.record.phase, self.record.decision) = (phase, decision);
        self.awaited.clone_from(&self.among.tree.children);
        self.news.children = true;
    }

    fn hear(&mut self, child: Pe) {
        self.awaited.retain(|&awaited| awaited != child);
    }

    /// Adopts the decision of a member that is ahead. The others may not have heard of it.
    fn finish(&mut self, decision: AgreedBits) {
        (self.record.phase, self.record.decision) = (AgreementPhase::Done, decision);
        self.news = Readers { parent: true, children: true };
    }
}
