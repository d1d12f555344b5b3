//! Agreement among the members of a team, regardless of deaths.
//!
//! The agreement is a value for one member. Its inputs are records of the other members and views,
//! its outputs a record to publish and finally a decision. The views are the job's: all members see
//! them in the same order, and a member lost in a view never acts again.
//!
//! ```text
//! propose   publish this member's input; wait until all live members of the view have published
//! lock      all members hold the same inputs and so decide alike: publish the decision; wait until
//!           all live members have
//! done      the decision is final: every live member holds it
//! ```
//!
//! A new view restarts at the first step, but keeps earlier locks: the newest lock of any member
//! becomes the decision. So if a member decided and then died, the other members reach the same
//! decision. A member that finds another one done adopts its decision. A member is at most one
//! agreement ahead, and its record holds the previous decision.
//!
//! A team ends after its last agreement, and another team may then reuse the place of its records.
//! Each member waits until it has seen that no other living member needs a record any more
//! ([`is_past`]). This requires no extra action of the other members. A temporary place is then
//! zeroed ([`CLEARED`]), so zeroes mean that a member is past its last agreement.
//!
//! Invariants: decisions of one agreement are equal on all members that reach one, including
//! members that die later. The decision includes the proposal of every member that lives in its
//! view; the proposal of a lost member is included on all members or on none.
//!
//! Left out: location and reading of records ([`Record::of`] detects torn reads).

use crate::mutant::{Mutant, breaks};
use crate::tree::post::digest;

#[cfg(test)]
mod explore;

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

    fn fold(view: u64, lost: u32, proposals: impl Iterator<Item = Proposal> + Clone) -> AgreedBits {
        let bases = proposals.clone().map(|proposal| proposal.basis);
        let first = bases.clone().next().unwrap_or(0);
        AgreedBits {
            view,
            value: proposals.clone().fold(u64::MAX, |all, one| all & one.value),
            even: first != 0 && { bases }.all(|basis| basis == first),
            lost,
            acknowledged: proposals.map(|one| one.acknowledged).min().unwrap_or(0),
        }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgreementPhase {
    /// It proposes, and has no earlier lock.
    Proposed = 1,
    /// It proposes, and has locked the decision in an earlier view.
    Bound,
    /// It has locked the decision in this view.
    Locked,
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
    /// Input of the member.
    pub proposal: Proposal,
    /// The locked decision, if the phase has one.
    pub decision: AgreedBits,
    /// The decision of the previous agreement.
    pub previous: AgreedBits,
}

/// Number of words of a record.
pub const WORDS: usize = 13;

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
        words[WORDS - 1] = digest(&words[..WORDS - 1]);
        words
    }

    /// Unpacks a record; None if the words are not a record, or were read during a change.
    pub fn of(words: [u64; WORDS]) -> Option<Record> {
        let [team, number, state, value, basis, acknowledged, ..] = words;
        let phase = match state & 0xff {
            1 => AgreementPhase::Proposed,
            2 => AgreementPhase::Bound,
            3 => AgreementPhase::Locked,
            4 => AgreementPhase::Done,
            _ => return None,
        };
        let decision = |at: usize| AgreedBits::of([words[at], words[at + 1], words[at + 2]]);
        (words[WORDS - 1] == digest(&words[..WORDS - 1])).then(|| Record {
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

/// The observation of a member in the current view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Seen {
    Nothing,
    Proposed(Proposal, Option<AgreedBits>),
    Locked(AgreedBits),
}

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

/// The state of one member in one agreement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agreement {
    me: usize,
    /// For each member: true if it lives in the view, and the observation of it.
    seen: Vec<(bool, Seen)>,
    record: Record,
}

impl Agreement {
    /// Starts an agreement of member `me` in `view` with these `living` members; `previous` is the
    /// decision of the previous agreement.
    pub fn begin(
        (which, me): (Which, usize),
        proposal: Proposal,
        previous: AgreedBits,
        (view, living): (u64, Vec<bool>),
    ) -> Agreement {
        let (phase, decision) = (AgreementPhase::Proposed, AgreedBits::default());
        let record = Record { which, phase, view, proposal, decision, previous };
        let seen = living.into_iter().map(|lives| (lives, Seen::Nothing)).collect();
        Agreement { me, seen, record }
    }

    /// Returns the record that this member publishes now.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the current view.
    pub fn view(&self) -> u64 {
        self.record.view
    }

    /// Adopts the next view.
    pub fn adopt(&mut self, view: u64, living: Vec<bool>) {
        if self.record.phase == AgreementPhase::Done || view <= self.record.view {
            return;
        }
        self.record.view = view;
        if self.record.phase == AgreementPhase::Locked {
            let kept = !breaks(Mutant::LockForgotten);
            self.record.phase = if kept { AgreementPhase::Bound } else { AgreementPhase::Proposed };
        }
        self.seen = living.into_iter().map(|lives| (lives, Seen::Nothing)).collect();
    }

    /// Returns the members whose records may allow progress.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        let over = self.record.phase == AgreementPhase::Done;
        let locked = self.record.phase == AgreementPhase::Locked;
        let waits = move |seen: &Seen| match seen {
            Seen::Nothing => true,
            Seen::Proposed(..) => locked,
            Seen::Locked(_) => false,
        };
        let others = self.seen.iter().enumerate().filter(move |(member, _)| *member != self.me);
        let living = others.filter(move |(_, (lives, seen))| !over && *lives && waits(seen));
        living.map(|(member, _)| member)
    }

    /// Observes the record that a member has published.
    pub fn observe(&mut self, member: usize, shown: &Record) {
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
        let seen = match shown.phase {
            AgreementPhase::Done => return self.finish(shown.decision),
            _ if shown.view != self.record.view => return,
            AgreementPhase::Proposed => Seen::Proposed(shown.proposal, None),
            AgreementPhase::Bound => Seen::Proposed(shown.proposal, Some(shown.decision)),
            AgreementPhase::Locked => Seen::Locked(shown.decision),
        };
        self.seen[member].1 = seen;
    }

    /// Advances as far as possible. True if the record has changed.
    pub fn advance(&mut self) -> bool {
        let before = self.record.phase;
        if matches!(self.record.phase, AgreementPhase::Proposed | AgreementPhase::Bound)
            && self.awaited().next().is_none()
        {
            self.record.decision = self.decide();
            self.record.phase = AgreementPhase::Locked;
            if breaks(Mutant::DoneUnlocked) {
                self.record.phase = AgreementPhase::Done;
            }
        }
        if self.record.phase == AgreementPhase::Locked && self.awaited().next().is_none() {
            self.record.phase = AgreementPhase::Done;
        }
        self.record.phase != before
    }

    /// Returns the decision, once it stands.
    pub fn decision(&self) -> Option<AgreedBits> {
        (self.record.phase == AgreementPhase::Done).then_some(self.record.decision)
    }

    fn finish(&mut self, decision: AgreedBits) {
        (self.record.phase, self.record.decision) = (AgreementPhase::Done, decision);
    }

    /// Returns the decision that follows from the records of all living members in this view.
    fn decide(&self) -> AgreedBits {
        let Record { phase, view, proposal, decision, .. } = self.record;
        let own = Seen::Proposed(proposal, (phase == AgreementPhase::Bound).then_some(decision));
        let seen = self.seen.iter().filter(|(lives, _)| *lives).map(|(_, seen)| *seen);
        let all = seen.filter(|seen| *seen != Seen::Nothing).chain([own]);
        let locked = all.clone().find_map(|seen| match seen {
            Seen::Locked(decision) => Some(decision),
            _ => None,
        });
        let bound = all.clone().filter_map(|seen| match seen {
            Seen::Proposed(_, bound) => bound,
            _ => None,
        });
        let proposals = all.clone().filter_map(|seen| match seen {
            Seen::Proposed(proposal, _) => Some(proposal),
            _ => None,
        });
        let lost = self.seen.iter().filter(|(lives, _)| !lives).count() as u32;
        let newest = bound.max_by_key(|decision| decision.view);
        locked.or(newest).unwrap_or_else(|| AgreedBits::fold(view, lost, proposals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let proposal = Proposal { value: !3, basis: 9, acknowledged: 2 };
        let decision = AgreedBits { view: 9, value: 5, even: true, lost: 7, acknowledged: 3 };
        let previous = AgreedBits { view: 8, value: 1, even: false, lost: 16_383, acknowledged: 1 };
        let which = Which { team: 0xfeed, number: 12, gate: 4 };
        Record { which, phase: AgreementPhase::Bound, view: 77, proposal, decision, previous }
    }

    #[test]
    fn a_record_survives_its_words() {
        for phase in [
            AgreementPhase::Proposed,
            AgreementPhase::Bound,
            AgreementPhase::Locked,
            AgreementPhase::Done,
        ] {
            let record = Record { phase, ..record() };
            assert_eq!(Record::of(record.words()), Some(record));
        }
        assert_eq!(Record::of([0; WORDS]), None, "nobody showed anything");
    }

    #[test]
    fn words_of_two_records_are_none() {
        let (one, other) = (record().words(), Record { view: 78, ..record() }.words());
        for cut in 0..WORDS {
            let torn: [u64; WORDS] =
                std::array::from_fn(|at| if at < cut { one[at] } else { other[at] });
            let whole = torn == one || torn == other;
            assert_eq!(Record::of(torn).is_some(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_member_with_another_purpose_does_not_agree() {
        let which = |gate| Which { team: 1, number: 1, gate };
        let begin = |gate, me| {
            let own = (which(gate), me);
            Agreement::begin(own, Proposal::default(), AgreedBits::default(), (1, vec![true; 2]))
        };
        let (mut here, there) = (begin(0, 0), begin(1, 1));
        here.observe(1, there.record());
        assert!(!here.advance() && here.decision().is_none());
        here.observe(1, begin(0, 1).record());
        assert!(here.advance());
    }
}
