//! The rule that finds the PEs that are behind after a restart, from call sites of the checkpoint.
//!
//! A program may call the checkpoint from several places. A substitute starts at the top of `main`,
//! so it may learn of its own loss in a different call than the survivors:
//!
//! ```text
//! while (checkpoint fails) restart;              A   the substitute is notified, and calls again
//! loop {
//!     compute;
//!     if (checkpoint fails) { restart; continue; }   B   the survivors are notified, and compute
//! }
//! ```
//!
//! A PE is *behind* if it learned of the loss at a different call site than the PEs that came
//! furthest. When it calls again, from a site other than theirs, it observes what one of those PEs,
//! the *reference*, does after the restart. If the reference also calls the checkpoint from there,
//! or has written the same since the restart (for example nothing), the two calls meet. If the
//! reference has moved on, they do not: the call returns success if nothing was written, since
//! checkpoint `n` is exactly this state; otherwise the job ends.
//!
//! Barriers over all PEs are counted from the restart. So a barrier that both PEs passed between
//! the restart and the call does not count as the reference having moved on.
//!
//! Left out: programs whose PEs call one checkpoint from several places (`varied`), and programs
//! whose call sites are unknown. Their calls always meet, as if all were made from one place.

use super::intent::lower;
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe, ViewNumber};

/// The call in which a PE is, or in which it learned of a loss, as published to peers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Called {
    /// Digest of the call site, 0 if unknown.
    pub site: u64,
    /// The checkpoint that the call was to make.
    pub number: CheckpointNumber,
    /// True for a substitute that has not taken part in a recovery yet.
    pub new: bool,
    /// True if the PE is behind since the last restart.
    pub late: bool,
    /// True if the PE has seen one checkpoint called from several places.
    pub varied: bool,
}

impl Called {
    /// Packs number and flags into one word; the site is another.
    pub fn word(self) -> u64 {
        let flags = [self.new, self.late, self.varied];
        flags.into_iter().fold(self.number.0, |word, flag| word << 1 | u64::from(flag))
    }

    /// Unpacks a call.
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

    /// Returns how far the PE has come: a larger rank is further.
    fn rank(self) -> Rank {
        match (self.new, self.late) {
            (true, _) => 0,
            (_, true) => 1,
            _ => self.number.program() + 2,
        }
    }
}

/// The progress of a PE in the call in which it learned of a loss: a larger rank is further.
type Rank = u64;

/// The relevant part of the calls of several PEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The lowest PE, with the checkpoint that it makes.
    first: (Pe, CheckpointNumber),
    /// The lowest PE that makes a different checkpoint.
    unlike: Option<(Pe, CheckpointNumber)>,
    /// True if some call site is unknown.
    unknown: bool,
    /// True if some PE has seen one checkpoint called from several places.
    varied: bool,
    /// True if there are more call sites than [`SITES`].
    more: bool,
    /// Call sites, in order, each with the highest rank that called from there, and the lowest PE
    /// with that rank.
    sites: [Option<(u64, Rank, Pe)>; SITES],
    /// The PEs with the lowest ranks, in ascending order.
    last: [Option<(Rank, Pe)>; LAST],
}

/// Number of call sites that are distinguished. A program with more sites in one checkpoint is
/// treated as calling it from anywhere.
const SITES: usize = 4;
/// Number of PEs that are woken if they are behind; the other PEs poll.
const LAST: usize = 4;
/// Number of words of packed [`Calls`].
pub const CALLS: usize = 4 + 2 * SITES + LAST;

/// Packs a rank and a PE into one word.
fn pack(rank: Rank, pe: Pe) -> u64 {
    (rank << 16 | u64::from(pe.0)) + 1
}

fn unpack(word: u64) -> Option<(Rank, Pe)> {
    word.checked_sub(1).map(|word| (word >> 16, Pe((word & 0xffff) as u32)))
}

/// Stores the first `N` of `all`, which is sorted, in `kept`. True if all fit.
fn keep<T: Copy, const N: usize>(all: &[T], kept: &mut [Option<T>; N]) -> bool {
    *kept = std::array::from_fn(|at| all.get(at).copied());
    all.len() <= N
}

impl Calls {
    /// Returns the call of PE `pe`.
    pub fn of(pe: Pe, call: &Called) -> Calls {
        let (mut sites, mut last) = ([None; SITES], [None; LAST]);
        sites[0] = Some((call.site, call.rank(), pe));
        last[0] = Some((call.rank(), pe));
        let (first, unknown, varied) = ((pe, call.number), call.site == 0, call.varied);
        Calls { first, unlike: None, unknown, varied, more: false, sites, last }
    }

    /// Adds the calls of other PEs.
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

    /// Packs the calls into words.
    pub fn words(&self) -> [u64; CALLS] {
        let flags = [self.unknown, self.varied, self.more];
        let flags = flags.into_iter().fold(0, |word, flag| word << 1 | u64::from(flag));
        let unlike = self.unlike.map_or([0, 0], |(pe, number)| [u64::from(pe.0) + 1, number.0]);
        let mut words = [0; CALLS];
        // The lowest PE and the flags share one word.
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

    /// Unpacks the calls.
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

    /// True if some PE has previously seen one checkpoint called from several places.
    pub fn varied(&self) -> bool {
        self.varied
    }

    /// Returns the lowest PE, and the lowest that makes a different checkpoint, each with its
    /// number; None if all PEs of a meeting make the same one. No program can cause a difference,
    /// since PEs that meet have agreed on the checkpoint before: words were corrupted, or the
    /// library has a bug.
    pub fn unlike(&self) -> Option<[(Pe, CheckpointNumber); 2]> {
        self.unlike.map(|unlike| [self.first, unlike])
    }
}

/// The outcome of the comparison after a restart. Equal on every PE, except for `behind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergedSites {
    /// The lowest of the PEs that came furthest.
    pub reference: Pe,
    /// Sites at which those PEs learned of the loss.
    pub sites: Vec<u64>,
    /// True if this PE is behind.
    pub behind: bool,
    /// Known PEs that may be behind; further ones poll.
    pub others: Vec<Pe>,
}

impl DivergedSites {
    /// True if this PE, which now calls from `site`, is behind.
    pub fn is_late(&self, site: u64) -> bool {
        self.behind && !self.sites.contains(&site)
    }
}

/// Finds the PEs that are behind, from the calls in which all PEs learned of a loss; this PE
/// learned of it at `site`. None if no PE is behind.
pub fn apart(calls: &Calls, site: u64) -> Option<DivergedSites> {
    let (furthest, _) = calls.sites().map(|(_, rank, pe)| (rank, pe)).max()?;
    let ahead = || calls.sites().filter(|&(_, rank, _)| rank == furthest);
    let sites: Vec<u64> = ahead().map(|(site, ..)| site).collect();
    let some = calls.sites().any(|(site, ..)| !sites.contains(&site));
    let silent = calls.unknown || calls.varied || calls.more;
    let reference = ahead().map(|(.., pe)| pe).min()?;
    let last = calls.last.iter().flatten().filter(|&&(rank, _)| rank < furthest);
    let (behind, others) = (!sites.contains(&site), last.map(|&(_, pe)| pe).collect());
    let apart = !silent && some && !breaks(Mutant::EveryCallMeets);
    apart.then_some(DivergedSites { reference, sites, behind, others })
}

/// The last action of a PE since the restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It entered a barrier over all PEs.
    Barrier,
    /// It waits for other PEs by other means, or is in `shmem_finalize`.
    Waits,
    /// It called the checkpoint.
    Checkpoint,
}

/// The actions of a PE since the restart, as published to peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Its last action.
    pub activity: Activity,
    /// Number of barriers over all PEs that it has entered since the restart.
    pub barriers: u64,
    /// True if it may have written to other PEs.
    pub reached: bool,
    /// Site from which it called the checkpoint.
    pub site: u64,
    /// Digest of the memory that differs from its state at the restart, 0 if none does. Known for
    /// the reference and for PEs that are behind, during a checkpoint.
    pub written: u64,
}

impl Progress {
    /// Packs the progress into words, for PEs in this view; the first word must be written last.
    pub fn words(&self, view: ViewNumber) -> [u64; 4] {
        let kind = match self.activity {
            Activity::Barrier => 1,
            Activity::Waits => 2,
            Activity::Checkpoint => 3,
        };
        let event = view.0 << 3 | u64::from(self.reached) << 2 | kind;
        [event, self.barriers, self.site, self.written]
    }

    /// Unpacks the progress; None if it belongs to another view.
    pub fn of(words: [u64; 4], view: ViewNumber) -> Option<Progress> {
        let [event, barriers, site, written] = words;
        let activity = match event & 3 {
            1 => Activity::Barrier,
            2 => Activity::Waits,
            3 => Activity::Checkpoint,
            _ => return None,
        };
        let reached = event >> 2 & 1 == 1;
        (event >> 3 == view.0).then_some(Progress { activity, barriers, reached, site, written })
    }
}

/// The outcome of a checkpoint call of a PE that is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The call joins the reference's checkpoint.
    Meet,
    /// The call is skipped: the reference has moved on, and nothing was written since the restart.
    Pass,
    /// The reference has moved on, and something was written: the two will never meet.
    Mismatch,
}

/// Returns the outcome of the call in `own`; None if the PEs have not published enough yet.
/// `others` returns all PEs but this one, the reference included.
pub fn follow(
    own: &Progress,
    reference: Option<&Progress>,
    others: impl Fn() -> Vec<Option<Progress>>,
) -> Option<Verdict> {
    let reference = reference.filter(|reference| reference.barriers >= own.barriers)?;
    if reference.barriers == own.barriers {
        let same = reference.site == own.site || reference.written == own.written;
        match reference.activity {
            Activity::Barrier => return None, // it has not left any barrier that this PE is not in
            Activity::Checkpoint if same => return Some(Verdict::Meet),
            Activity::Checkpoint | Activity::Waits => {}
        }
    }
    if own.written == 0 {
        return Some(Verdict::Pass);
    }
    // The difference may be due to writes of other PEs.
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

    fn at(activity: Activity, barriers: u64, site: u64, written: u64) -> Progress {
        Progress { activity, barriers, reached: false, site, written }
    }

    #[test]
    fn words_are_read_back() {
        for bits in 0..8u64 {
            let (new, late, varied) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
            let call = Called { site: A, number: CheckpointNumber(7 << 40), new, late, varied };
            assert_eq!(Called::of(A, call.word()), call);
        }
        for activity in [Activity::Barrier, Activity::Waits, Activity::Checkpoint] {
            for reached in [false, true] {
                let progress = Progress { reached, ..at(activity, 3, B, 9) };
                assert_eq!(
                    Progress::of(progress.words(ViewNumber(5)), ViewNumber(5)),
                    Some(progress)
                );
                assert_eq!(Progress::of(progress.words(ViewNumber(5)), ViewNumber(6)), None);
            }
        }
        assert_eq!(Progress::of([0; 4], ViewNumber(0)), None);
    }

    /// Adds up all calls: the sum is equal in any order, and after packing and unpacking.
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

    /// Returns the reference, and the PEs that are behind.
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
    fn a_pe_that_learned_in_the_previous_call_is_behind_too() {
        let calls = [(0, called(A, 2)), (1, new(A)), (2, called(B, 3))];
        assert_eq!(found(&calls), Some((2, vec![0, 1])));
        assert_eq!(apart(&sum(&calls), B).unwrap().others, [Pe(1), Pe(0)], "the last first");
    }

    #[test]
    fn a_pe_behind_stays_behind_through_another_loss() {
        let late = Called { late: true, ..called(A, 3) };
        assert_eq!(found(&[(0, late), (1, new(A)), (2, called(B, 3))]), Some((2, vec![0, 1])));
        assert_eq!(found(&[(0, late), (1, new(A)), (2, new(A))]), None, "nobody came further");
    }

    #[test]
    fn one_place_many_places_and_unknown_ones_leave_no_pe_behind() {
        assert_eq!(found(&[(0, called(A, 3)), (1, new(A)), (2, called(A, 4))]), None);
        assert_eq!(found(&[(0, called(0, 3)), (1, new(A))]), None);
        let varied = Called { varied: true, ..called(B, 3) };
        assert_eq!(found(&[(0, varied), (1, new(A))]), None);
        let many: Vec<_> = (0..6).map(|pe| (pe, called(A + pe as u64, 3 + pe as u64))).collect();
        assert_eq!(found(&many[..4]), Some((3, vec![0, 1, 2])));
        assert_eq!(found(&many), None, "more sites than can be distinguished");
    }

    /// Compares the sum with a direct evaluation of all calls, for every combination of a few
    /// calls.
    #[test]
    fn the_sum_agrees_with_an_evaluation_of_all_calls() {
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
    fn a_call_is_skipped_once_the_reference_has_continued() {
        let own = at(Activity::Checkpoint, 1, A, 0);
        let of = |reference: Progress| follow(&own, Some(&reference), Vec::new);
        assert_eq!(follow(&own, None, Vec::new), None);
        assert_eq!(of(at(Activity::Barrier, 1, 0, 0)), None, "the barrier that both have made");
        assert_eq!(of(at(Activity::Barrier, 2, 0, 0)), Some(Verdict::Pass));
        assert_eq!(of(at(Activity::Waits, 1, 0, 0)), Some(Verdict::Pass));
        assert_eq!(of(at(Activity::Checkpoint, 1, B, 7)), Some(Verdict::Pass));
    }

    #[test]
    fn calls_from_one_place_or_with_equal_writes_meet() {
        for written in [0, 5] {
            let own = at(Activity::Checkpoint, 1, A, written);
            let of = |site, written| at(Activity::Checkpoint, 1, site, written);
            assert_eq!(follow(&own, Some(&of(A, 7)), Vec::new), Some(Verdict::Meet));
            assert_eq!(follow(&own, Some(&of(B, written)), Vec::new), Some(Verdict::Meet));
        }
    }

    #[test]
    fn own_writes_are_a_mismatch_unless_others_may_have_made_them() {
        let (own, reference) =
            (at(Activity::Checkpoint, 0, A, 5), at(Activity::Checkpoint, 0, B, 7));
        let of = |other: Option<Progress>| {
            follow(&own, Some(&reference), || vec![Some(reference), other])
        };
        let other = at(Activity::Waits, 0, 0, 0);
        assert_eq!(of(None), None, "one has said nothing yet");
        assert_eq!(of(Some(other)), Some(Verdict::Mismatch));
        assert_eq!(of(Some(Progress { reached: true, ..other })), Some(Verdict::Pass));
    }
}
