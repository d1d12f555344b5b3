//! The parity groups that checkpoints were encoded with, for the writer of sets on nodes' disks.
//!
//! A checkpoint that is agreed names its groups by a view ([`raidshmem_core::store::grouped`]). A
//! set names them in full, so that a job without that history can decode it.
//!
//! Invariant: between two losses groups change at most once, and a loss ends every set in progress;
//! so the last two groups are those of every checkpoint that may still be written.

use raidshmem_core::disk::ParityShare;
use raidshmem_core::placement::Domains;
use raidshmem_core::placement::moves::PlaceHistory;
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::settings::Settings;
use raidshmem_core::store::protection::Protection;

use crate::code::Code;

/// The groups of checkpoints from `since` on.
#[derive(Debug)]
struct Encoded {
    since: CheckpointNumber,
    places: ViewNumber,
    code: Code,
    shares: Vec<ParityShare>,
}

/// The groups of the last checkpoints.
#[derive(Debug)]
pub struct EncodedGroups {
    settings: Settings,
    domains: Domains,
    /// Groups of the set that the job began from.
    of_set: Option<Vec<Vec<Pe>>>,
    /// At most two, oldest first.
    known: Vec<Encoded>,
}

impl EncodedGroups {
    /// Creates the state of a job without checkpoints, which begins from a set of these groups.
    pub fn new(
        settings: Settings,
        domains: Domains,
        of_set: Option<Vec<Vec<Pe>>>,
    ) -> EncodedGroups {
        EncodedGroups { settings, domains, of_set, known: Vec::new() }
    }

    /// Forgets all groups: the job begins again, from a set of these groups.
    pub fn begin_again(&mut self, of_set: Option<Vec<Vec<Pe>>>) {
        (self.of_set, self.known) = (of_set, Vec::new());
    }

    /// Records that checkpoint `number` was agreed with the groups that `places` names in this
    /// history. If they cannot be computed, no checkpoint has known groups.
    pub fn agree(&mut self, number: CheckpointNumber, places: ViewNumber, history: &PlaceHistory) {
        self.known.retain(|it| it.since <= number); // a later one was abandoned
        if self.known.last().is_some_and(|it| it.places == places) {
            return;
        }
        let Some(made) = self.named(places, history) else { return self.known.clear() };
        let (code, shares) = (Code::of(&made), Code::shares(&made));
        self.known.retain(|it| it.since < number);
        self.known.push(Encoded { since: number, places, code, shares });
        let more = self.known.len().saturating_sub(2);
        self.known.drain(..more);
    }

    fn named(&self, places: ViewNumber, history: &PlaceHistory) -> Option<Protection> {
        let (node_of, settings, domains) = (history.at(places), &self.settings, &self.domains);
        let made = match places {
            ViewNumber::OF_SET => {
                Protection::of_set(settings, self.of_set.clone()?, &node_of, domains)
            }
            _ => Protection::named(settings, &node_of, domains, places),
        };
        made.ok().flatten()
    }

    /// Returns the code of checkpoint `number`; None if its groups are not known.
    pub fn code(&self, number: CheckpointNumber) -> Option<&Code> {
        self.of(number).map(|it| &it.code)
    }

    /// Returns the amount of parity of checkpoint `number` that each PE keeps.
    pub fn shares(&self, number: CheckpointNumber) -> &[ParityShare] {
        self.of(number).map_or(&[], |it| &it.shares)
    }

    fn of(&self, number: CheckpointNumber) -> Option<&Encoded> {
        self.known.iter().rev().find(|it| it.since <= number)
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::placement::moves::Move;
    use raidshmem_core::settings::BackupMode;

    use super::*;

    fn groups(encoded: &EncodedGroups, number: u64) -> Option<usize> {
        let number = CheckpointNumber(number);
        let code = encoded.code(number)?;
        let shares = encoded.shares(number);
        assert!(shares.len() == 4 && shares.iter().all(|share| share.held == 1));
        assert!(shares.iter().all(|share| share.chunks as usize == 4 / code.groups.len() - 1));
        Some(code.groups.len())
    }

    /// A claimed checkpoint keeps the groups of its own time, whenever it is written.
    #[test]
    fn a_checkpoint_has_the_groups_that_it_was_encoded_with() {
        let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
        let moves = vec![Move { view: ViewNumber(3), pe: Pe(2), node: 1 }];
        let history = PlaceHistory::new(vec![0, 1, 2, 3], moves);
        let mut encoded = EncodedGroups::new(settings, Domains::default(), None);
        let agree = |encoded: &mut EncodedGroups, number, places| {
            encoded.agree(CheckpointNumber(number), ViewNumber(places), &history);
        };
        let all = |encoded: &EncodedGroups, numbers: [u64; 4]| {
            numbers.map(|number| groups(encoded, number))
        };
        assert_eq!(groups(&encoded, 7), None, "none was agreed");
        (5..8).for_each(|number| agree(&mut encoded, number, 0));
        assert_eq!(all(&encoded, [4, 5, 7, 8]), [None, Some(1), Some(1), Some(1)]);
        (8..10).for_each(|number| agree(&mut encoded, number, 4));
        assert_eq!(all(&encoded, [5, 7, 8, 11]), [Some(1), Some(1), Some(2), Some(2)]);
        // It was abandoned by a loss, and made again with the old groups.
        agree(&mut encoded, 8, 0);
        assert_eq!(all(&encoded, [5, 7, 8, 11]), [Some(1); 4]);
        agree(&mut encoded, 12, ViewNumber::OF_SET.0);
        assert_eq!(all(&encoded, [5, 8, 12, 13]), [None; 4], "it began from no set");
        let pairs = [[3, 0], [2, 1]].map(|pair| pair.map(Pe).to_vec()).to_vec();
        encoded.begin_again(Some(pairs.clone()));
        agree(&mut encoded, 6, ViewNumber::OF_SET.0);
        assert_eq!(encoded.code(CheckpointNumber(6)).map(|code| &code.groups), Some(&pairs));
        agree(&mut encoded, 7, 1);
        assert_eq!(all(&encoded, [5, 6, 7, 8]), [None, Some(2), Some(1), Some(1)]);
    }
}
