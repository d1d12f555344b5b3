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

use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, ViewNumber};

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
    fn rank(self) -> u64 {
        match (self.new, self.late) {
            (true, _) => 0,
            (_, true) => 1,
            _ => self.number.0 + 2,
        }
    }
}

/// Which PEs are behind which after a restart. The same on every PE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// The lowest PE of those that came furthest.
    pub reference: usize,
    /// Where those learned of the loss.
    pub sites: Vec<u64>,
    /// The PEs that are behind.
    pub behind: Vec<usize>,
}

impl Apart {
    /// True if PE `pe`, which now calls from `site`, is behind.
    pub fn is_late(&self, pe: usize, site: u64) -> bool {
        self.behind.contains(&pe) && !self.sites.contains(&site)
    }
}

/// Which PEs are behind, by the calls in which all learned of a loss. None if no PE is.
pub fn apart(calls: &[(usize, Called)]) -> Option<Apart> {
    let furthest = calls.iter().map(|(_, call)| call.rank()).max()?;
    let ahead = || calls.iter().filter(|(_, call)| call.rank() == furthest);
    let sites: Vec<u64> = ahead().map(|(_, call)| call.site).collect();
    let behind = calls.iter().filter(|(_, call)| !sites.contains(&call.site));
    let behind: Vec<usize> = behind.map(|&(pe, _)| pe).collect();
    let silent = calls.iter().any(|(_, call)| call.site == 0 || call.varied);
    let reference = ahead().map(|&(pe, _)| pe).min()?;
    let apart = !silent && !behind.is_empty() && !breaks(Mutant::EveryCallMeets);
    apart.then_some(Apart { reference, sites, behind })
}

/// The lowest PE that makes another checkpoint than PE 0, if not all in a meeting make the same
/// one. No program brings that about, for those who meet have agreed on the same one before: words
/// were damaged, or the library is wrong.
pub fn unlike(calls: &[Called]) -> Option<usize> {
    let first = calls.first()?;
    calls.iter().position(|call| call.number != first.number)
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

    #[test]
    fn a_substitute_that_learned_elsewhere_is_behind() {
        let calls = [(0, called(B, 3)), (1, new(A)), (2, called(B, 3))];
        let apart = apart(&calls).unwrap();
        assert_eq!((apart.reference, apart.behind.as_slice()), (0, &[1][..]));
        assert!(apart.is_late(1, A) && !apart.is_late(1, B) && !apart.is_late(0, A));
    }

    #[test]
    fn who_learned_in_the_call_before_is_behind_too() {
        let calls = [(0, called(A, 2)), (1, new(A)), (2, called(B, 3))];
        let apart = apart(&calls).unwrap();
        assert_eq!((apart.reference, apart.behind.as_slice()), (2, &[0, 1][..]));
    }

    #[test]
    fn who_was_behind_stays_so_through_another_loss() {
        let late = Called { late: true, ..called(A, 3) };
        let ahead = apart(&[(0, late), (1, new(A)), (2, called(B, 3))]).unwrap();
        assert_eq!((ahead.reference, ahead.behind.as_slice()), (2, &[0, 1][..]));
        assert_eq!(apart(&[(0, late), (1, new(A)), (2, new(A))]), None, "nobody came further");
    }

    #[test]
    fn one_place_or_many_or_unknown_ones_leave_nobody_behind() {
        assert_eq!(apart(&[(0, called(A, 3)), (1, new(A)), (2, called(A, 4))]), None);
        assert_eq!(apart(&[(0, called(0, 3)), (1, new(A))]), None);
        let varied = Called { varied: true, ..called(B, 3) };
        assert_eq!(apart(&[(0, varied), (1, new(A))]), None);
        assert_eq!(apart(&[]), None);
    }

    #[test]
    fn checkpoints_are_alike_by_their_numbers_whoever_calls_from_where() {
        assert_eq!(unlike(&[]), None);
        let late = Called { late: true, varied: true, ..called(B, 3) };
        assert_eq!(unlike(&[called(A, 3), Called { new: true, ..called(0, 3) }, late]), None);
        assert_eq!(unlike(&[called(A, 3), called(A, 3), called(A, 4), called(A, 2)]), Some(2));
        assert_eq!(unlike(&[called(A, 4), called(A, 3)]), Some(1));
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
