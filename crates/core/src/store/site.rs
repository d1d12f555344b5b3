//! Which PEs are behind after a restart: a pure rule over call sites of the checkpoint.
//!
//! A program may call the checkpoint from several places. A substitute begins at the top of `main`,
//! so the call in which it learns of its own loss may be another one than that of the survivors:
//!
//! ```text
//! while (checkpoint fails) restart;              A   the substitute learns here, and calls again
//! loop {
//!     compute;
//!     if (checkpoint fails) { restart; continue; }   B   the survivors learn here, and compute
//! }
//! ```
//!
//! It is *behind* then, if it learned elsewhere than those that came furthest. When it calls again,
//! and not from a place where they learned, it looks at what one of those, the *reference*, does
//! after the restart. A reference that calls the checkpoint from there too, or has written the same
//! since the restart (nothing, say), meets it. A reference that has gone on does not: the call
//! returns success if nothing was written, for checkpoint `n` is this very state; else the job
//! ends.
//!
//! Barriers over all PEs are counted from the restart, so that one that both made between the
//! restart and the call is no sign that the reference has gone on.
//!
//! Left out: programs whose PEs call one checkpoint from several places (`varied`), and those whose
//! places are not known. For them every call meets, as if all were made from one place.

use super::intent::lower;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};

/// What a PE shows of the call in which it is, or in which it learned of a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Called {
    /// Digest of the call site, 0 if it is not known.
    pub site: u64,
    /// The checkpoint that it was to make.
    pub number: CheckpointNumber,
    /// A substitute that has taken part in no recovery yet.
    pub new: bool,
    /// It is behind since the last restart.
    pub late: bool,
    /// It has seen one checkpoint called from several places.
    pub varied: bool,
}

impl Called {
    /// Number and flags as one word; the site is another.
    pub fn word(self) -> u64 {
        let flags = [self.new, self.late, self.varied];
        flags.into_iter().fold(self.number.0, |word, flag| word << 1 | u64::from(flag))
    }

    /// The inverse.
    pub fn of(site: u64, word: u64) -> Called {
        let flag = |bit: u32| word >> bit & 1 == 1;
        Called {
            site,
            number: CheckpointNumber(word >> 3),
            new: flag(2),
            late: flag(1),
            varied: flag(0),
        }
    }

    /// How far it has come: a larger one is further.
    fn rank(self) -> Rank {
        match (self.new, self.late) {
            (true, _) => 0,
            (_, true) => 1,
            _ => self.number.0 + 2,
        }
    }
}

/// How far a PE has come in the call in which it learned of a loss: a larger one is further.
type Rank = u64;

/// The calls of several PEs, as far as they matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The lowest PE, with the checkpoint that it makes.
    first: (Pe, CheckpointNumber),
    /// The lowest PE that makes another one.
    unlike: Option<(Pe, CheckpointNumber)>,
    /// Some call site is not known.
    unknown: bool,
    /// Some PE has seen one checkpoint called from several places.
    varied: bool,
    /// There are more call sites than [`SITES`].
    more: bool,
    /// Call sites, in order, each with the furthest that has called from there, and the lowest PE
    /// of those.
    sites: [Option<(u64, Rank, Pe)>; SITES],
    /// The PEs that have come least far, in that order.
    last: [Option<(Rank, Pe)>; LAST],
}

/// Call sites that are told apart. A program with more of them in one checkpoint is taken for one
/// that calls it from anywhere.
const SITES: usize = 4;
/// PEs that are woken when they are behind; others look by themselves.
const LAST: usize = 4;
/// Words of calls.
pub const CALLS: usize = 4 + 2 * SITES + LAST;

/// A rank and a PE as one word.
fn pack(rank: Rank, pe: Pe) -> u64 {
    (rank << 16 | u64::from(pe.0)) + 1
}

fn unpack(word: u64) -> Option<(Rank, Pe)> {
    word.checked_sub(1).map(|word| (word >> 16, Pe((word & 0xffff) as u32)))
}

/// Puts the lowest of `all` into `kept`. True if all have found room.
fn keep<T: Copy, const N: usize>(all: &[T], kept: &mut [Option<T>; N]) -> bool {
    *kept = std::array::from_fn(|at| all.get(at).copied());
    all.len() <= N
}

impl Calls {
    /// That of PE `pe`.
    pub fn of(pe: Pe, call: &Called) -> Calls {
        let (mut sites, mut last) = ([None; SITES], [None; LAST]);
        sites[0] = Some((call.site, call.rank(), pe));
        last[0] = Some((call.rank(), pe));
        let (first, unknown, varied) = ((pe, call.number), call.site == 0, call.varied);
        Calls { first, unlike: None, unknown, varied, more: false, sites, last }
    }

    /// Adds those of others.
    pub fn add(&mut self, other: &Calls) {
        let (low, high) =
            if self.first.0 < other.first.0 { (*self, other) } else { (*other, &*self) };
        let like = high.first.1 == low.first.1;
        self.unlike = lower(low.unlike, if like { high.unlike } else { Some(high.first) });
        self.first = low.first;
        self.unknown |= other.unknown;
        self.varied |= other.varied;
        let mut sites: Vec<(u64, Rank, Pe)> =
            self.sites.iter().chain(&other.sites).copied().flatten().collect();
        sites.sort_unstable_by_key(|&(site, rank, pe)| (site, std::cmp::Reverse(rank), pe));
        sites.dedup_by_key(|&mut (site, ..)| site);
        self.more |= other.more | !keep(&sites, &mut self.sites);
        let mut last: Vec<(Rank, Pe)> =
            self.last.iter().chain(&other.last).copied().flatten().collect();
        last.sort_unstable();
        keep(&last, &mut self.last);
    }

    /// As words.
    pub fn words(&self) -> [u64; CALLS] {
        let flags = [self.unknown, self.varied, self.more];
        let flags = flags.into_iter().fold(0, |word, flag| word << 1 | u64::from(flag));
        let unlike = self.unlike.map_or([0, 0], |(pe, number)| [u64::from(pe.0) + 1, number.0]);
        let mut words = [0; CALLS];
        // The lowest PE and the flags are one word.
        words[..4].copy_from_slice(&[
            u64::from(self.first.0.0) << 3 | flags,
            self.first.1.0,
            unlike[0],
            unlike[1],
        ]);
        let (sites, last) = words[4..].split_at_mut(2 * SITES);
        for (words, (site, rank, pe)) in sites.chunks_mut(2).zip(self.sites.iter().flatten()) {
            words.copy_from_slice(&[*site, pack(*rank, *pe)]);
        }
        for (word, (rank, pe)) in last.iter_mut().zip(self.last.iter().flatten()) {
            *word = pack(*rank, *pe);
        }
        words
    }

    /// The inverse.
    pub fn read(words: [u64; CALLS]) -> Calls {
        let [first, number, unlike, other, ..] = words;
        let flag = |bit: u32| first >> bit & 1 == 1;
        let unlike = unlike.checked_sub(1).map(|pe| (Pe(pe as u32), CheckpointNumber(other)));
        let site = |at: usize| {
            let (rank, pe) = unpack(words[5 + 2 * at])?;
            Some((words[4 + 2 * at], rank, pe))
        };
        Calls {
            first: (Pe((first >> 3) as u32), CheckpointNumber(number)),
            unlike,
            unknown: flag(2),
            varied: flag(1),
            more: flag(0),
            sites: std::array::from_fn(site),
            last: std::array::from_fn(|at| unpack(words[4 + 2 * SITES + at])),
        }
    }

    fn sites(&self) -> impl Iterator<Item = (u64, Rank, Pe)> {
        self.sites.into_iter().flatten()
    }

    /// True if this checkpoint is known to be called from several places.
    pub fn vary(&self) -> bool {
        !self.unknown && (self.more || self.sites().count() > 1)
    }

    /// True if some PE has seen one checkpoint called from several places before.
    pub fn varied(&self) -> bool {
        self.varied
    }

    /// The lowest PE and the lowest that makes another checkpoint than that one, each with its
    /// number, if not all in a meeting make the same one. No program brings that about, for those
    /// who meet have agreed on the same one before: words were damaged, or the library is wrong.
    pub fn unlike(&self) -> Option<[(Pe, CheckpointNumber); 2]> {
        self.unlike.map(|unlike| [self.first, unlike])
    }
}

/// Which PEs are behind which after a restart. The same on every PE, but for what it says of the
/// own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// The lowest PE of those that came furthest.
    pub reference: Pe,
    /// Where those learned of the loss.
    pub sites: Vec<u64>,
    /// This PE is behind.
    pub behind: bool,
    /// PEs that may be behind, as far as they are known; others look by themselves.
    pub others: Vec<Pe>,
}

impl Apart {
    /// True if this PE, which now calls from `site`, is behind.
    pub fn is_late(&self, site: u64) -> bool {
        self.behind && !self.sites.contains(&site)
    }
}

/// Which PEs are behind, by the calls in which all learned of a loss; this one learned of it at
/// `site`. None if no PE is behind.
pub fn apart(calls: &Calls, site: u64) -> Option<Apart> {
    let (furthest, _) = calls.sites().map(|(_, rank, pe)| (rank, pe)).max()?;
    let ahead = || calls.sites().filter(|&(_, rank, _)| rank == furthest);
    let sites: Vec<u64> = ahead().map(|(site, ..)| site).collect();
    let some = calls.sites().any(|(site, ..)| !sites.contains(&site));
    let silent = calls.unknown || calls.varied || calls.more;
    let reference = ahead().map(|(.., pe)| pe).min()?;
    let last = calls.last.iter().flatten().filter(|&&(rank, _)| rank < furthest);
    let (behind, others) = (!sites.contains(&site), last.map(|&(_, pe)| pe).collect());
    let apart = !silent && some && !breaks(Mutant::EveryCallMeets);
    apart.then_some(Apart { reference, sites, behind, others })
}

/// What a PE did last since the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It came to a barrier over all PEs.
    Barrier,
    /// It waits for other PEs in another way, or is in `shmem_finalize`.
    Waits,
    /// It called the checkpoint.
    Checkpoint,
}

/// What a PE shows of what it did since the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What it did last.
    pub deed: Deed,
    /// Barriers over all PEs that it has come to since the restart.
    pub barriers: u64,
    /// It may have written to other PEs.
    pub reached: bool,
    /// Where it called the checkpoint.
    pub site: u64,
    /// Digest of what is not as it was at the restart, 0 if all is. Known of the reference and of
    /// those that are behind, in a checkpoint.
    pub written: u64,
}

impl Progress {
    /// As words, for those who are in that view; the first one is written last.
    pub fn words(&self, view: ViewNumber) -> [u64; 4] {
        let kind = match self.deed {
            Deed::Barrier => 1,
            Deed::Waits => 2,
            Deed::Checkpoint => 3,
        };
        let event = view.0 << 3 | u64::from(self.reached) << 2 | kind;
        [event, self.barriers, self.site, self.written]
    }

    /// The inverse; None if it is of another view.
    pub fn of(words: [u64; 4], view: ViewNumber) -> Option<Progress> {
        let [event, barriers, site, written] = words;
        let deed = match event & 3 {
            1 => Deed::Barrier,
            2 => Deed::Waits,
            3 => Deed::Checkpoint,
            _ => return None,
        };
        let reached = event >> 2 & 1 == 1;
        (event >> 3 == view.0).then_some(Progress { deed, barriers, reached, site, written })
    }
}

/// What becomes of a call of a PE that is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the same checkpoint as the reference's.
    Meet,
    /// It is none: the reference has gone on, and nothing was written since the restart.
    Pass,
    /// The reference has gone on, and something was written: the two never meet.
    Mismatch,
}

/// What becomes of the call that `own` shows. None: the reference has not said enough yet. `others`
/// are all PEs but this one, the reference among them.
pub fn follow(
    own: &Progress,
    reference: Option<&Progress>,
    others: impl Fn() -> Vec<Option<Progress>>,
) -> Option<Verdict> {
    let reference = reference.filter(|reference| reference.barriers >= own.barriers)?;
    if reference.barriers == own.barriers {
        let same = reference.site == own.site || reference.written == own.written;
        match reference.deed {
            Deed::Barrier => return None, // it has come out of no barrier that this PE is not in
            Deed::Checkpoint if same => return Some(Verdict::Meet),
            Deed::Checkpoint | Deed::Waits => {}
        }
    }
    if own.written == 0 {
        return Some(Verdict::Pass);
    }
    // What differs may be what others wrote here.
    let others = others();
    match others.iter().flatten().any(|other| other.reached) {
        true => Some(Verdict::Pass),
        false => others.iter().all(Option::is_some).then_some(Verdict::Mismatch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0xa;
    const B: u64 = 0xb;

    fn called(site: u64, number: u64) -> Called {
        let number = CheckpointNumber(number);
        Called { site, number, ..Called::default() }
    }

    fn new(site: u64) -> Called {
        Called { new: true, ..called(site, 1) }
    }

    fn at(deed: Deed, barriers: u64, site: u64, written: u64) -> Progress {
        Progress { deed, barriers, reached: false, site, written }
    }

    #[test]
    fn words_are_read_back() {
        for bits in 0..8u64 {
            let (new, late, varied) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
            let call = Called { site: A, number: CheckpointNumber(7 << 40), new, late, varied };
            assert_eq!(Called::of(A, call.word()), call);
        }
        for deed in [Deed::Barrier, Deed::Waits, Deed::Checkpoint] {
            for reached in [false, true] {
                let progress = Progress { reached, ..at(deed, 3, B, 9) };
                assert_eq!(
                    Progress::of(progress.words(ViewNumber(5)), ViewNumber(5)),
                    Some(progress)
                );
                assert_eq!(Progress::of(progress.words(ViewNumber(5)), ViewNumber(6)), None);
            }
        }
        assert_eq!(Progress::of([0; 4], ViewNumber(0)), None);
    }

    /// The sum of all calls, the same in any order and read back on the way.
    fn sum(calls: &[(u32, Called)]) -> Calls {
        let add = |one: Calls, other: Calls| {
            let mut one = Calls::read(one.words());
            one.add(&other);
            one
        };
        let turned = |by: usize| {
            let calls = (0..calls.len()).map(|at| calls[(at + by) % calls.len()]);
            calls.map(|(pe, call)| Calls::of(Pe(pe), &call)).reduce(add).unwrap()
        };
        let all = turned(0);
        assert!((1..calls.len()).all(|by| turned(by) == all));
        all
    }

    /// The reference, and the PEs that are behind.
    fn found(calls: &[(u32, Called)]) -> Option<(u32, Vec<u32>)> {
        let all = sum(calls);
        let of = |call: &Called| apart(&all, call.site);
        let behind = calls.iter().filter(|(_, call)| of(call).is_some_and(|apart| apart.behind));
        Some((of(&calls[0].1)?.reference.0, behind.map(|&(pe, _)| pe).collect()))
    }

    #[test]
    fn a_substitute_that_learned_elsewhere_is_behind() {
        let calls = [(0, called(B, 3)), (1, new(A)), (2, called(B, 3))];
        assert_eq!(found(&calls), Some((0, vec![1])));
        let apart = |site| apart(&sum(&calls), site).unwrap();
        assert!(apart(A).is_late(A) && !apart(A).is_late(B) && !apart(B).is_late(A));
        assert_eq!(apart(B).others, [Pe(1)]);
    }

    #[test]
    fn who_learned_in_the_call_before_is_behind_too() {
        let calls = [(0, called(A, 2)), (1, new(A)), (2, called(B, 3))];
        assert_eq!(found(&calls), Some((2, vec![0, 1])));
        assert_eq!(apart(&sum(&calls), B).unwrap().others, [Pe(1), Pe(0)], "the last first");
    }

    #[test]
    fn who_was_behind_stays_so_through_another_loss() {
        let late = Called { late: true, ..called(A, 3) };
        assert_eq!(found(&[(0, late), (1, new(A)), (2, called(B, 3))]), Some((2, vec![0, 1])));
        assert_eq!(found(&[(0, late), (1, new(A)), (2, new(A))]), None, "nobody came further");
    }

    #[test]
    fn one_place_or_many_or_unknown_ones_leave_nobody_behind() {
        assert_eq!(found(&[(0, called(A, 3)), (1, new(A)), (2, called(A, 4))]), None);
        assert_eq!(found(&[(0, called(0, 3)), (1, new(A))]), None);
        let varied = Called { varied: true, ..called(B, 3) };
        assert_eq!(found(&[(0, varied), (1, new(A))]), None);
        let many: Vec<_> = (0..6).map(|pe| (pe, called(A + pe as u64, 3 + pe as u64))).collect();
        assert_eq!(found(&many[..4]), Some((3, vec![0, 1, 2])));
        assert_eq!(found(&many), None, "more sites than are told apart");
    }

    /// Any few calls, against a look at all of them.
    #[test]
    fn the_sum_says_what_a_look_at_all_calls_says() {
        let kinds = [called(A, 3), called(B, 3), called(A, 4), new(A), new(B), called(0, 3)];
        for code in 0..kinds.len().pow(4) {
            let calls: Vec<(u32, Called)> =
                (0..4).map(|pe| (pe, kinds[code / kinds.len().pow(pe) % kinds.len()])).collect();
            let furthest = calls.iter().map(|(_, call)| call.rank()).max().unwrap();
            let ahead = || calls.iter().filter(|(_, call)| call.rank() == furthest);
            let is_ahead = |site: u64| ahead().any(|(_, call)| call.site == site);
            let behind = calls.iter().filter(|(_, call)| !is_ahead(call.site));
            let behind: Vec<u32> = behind.map(|&(pe, _)| pe).collect();
            let known = calls.iter().all(|(_, call)| call.site != 0);
            let expected =
                (known && !behind.is_empty()).then(|| (ahead().next().unwrap().0, behind));
            assert_eq!(found(&calls), expected, "{calls:?}");
            let odd = calls.iter().find(|(_, call)| call.number != calls[0].1.number);
            let unlike = sum(&calls).unlike().map(|[_, (pe, _)]| pe.0);
            assert_eq!(unlike, odd.map(|&(pe, _)| pe), "{calls:?}");
            let vary = known && calls.iter().any(|(_, call)| call.site != calls[0].1.site);
            assert_eq!(sum(&calls).vary(), vary, "{calls:?}");
        }
    }

    #[test]
    fn a_call_is_passed_once_the_reference_has_gone_on() {
        let own = at(Deed::Checkpoint, 1, A, 0);
        let of = |reference: Progress| follow(&own, Some(&reference), Vec::new);
        assert_eq!(follow(&own, None, Vec::new), None);
        assert_eq!(of(at(Deed::Barrier, 1, 0, 0)), None, "the barrier that both have made");
        assert_eq!(of(at(Deed::Barrier, 2, 0, 0)), Some(Verdict::Pass));
        assert_eq!(of(at(Deed::Waits, 1, 0, 0)), Some(Verdict::Pass));
        assert_eq!(of(at(Deed::Checkpoint, 1, B, 7)), Some(Verdict::Pass));
    }

    #[test]
    fn calls_from_one_place_or_with_the_same_written_meet() {
        for written in [0, 5] {
            let own = at(Deed::Checkpoint, 1, A, written);
            let of = |site, written| at(Deed::Checkpoint, 1, site, written);
            assert_eq!(follow(&own, Some(&of(A, 7)), Vec::new), Some(Verdict::Meet));
            assert_eq!(follow(&own, Some(&of(B, written)), Vec::new), Some(Verdict::Meet));
        }
    }

    #[test]
    fn what_was_written_is_a_mismatch_unless_others_may_have_written_it() {
        let (own, reference) = (at(Deed::Checkpoint, 0, A, 5), at(Deed::Checkpoint, 0, B, 7));
        let of = |other: Option<Progress>| {
            follow(&own, Some(&reference), || vec![Some(reference), other])
        };
        let other = at(Deed::Waits, 0, 0, 0);
        assert_eq!(of(None), None, "one has said nothing yet");
        assert_eq!(of(Some(other)), Some(Verdict::Mismatch));
        assert_eq!(of(Some(Progress { reached: true, ..other })), Some(Verdict::Pass));
    }
}
