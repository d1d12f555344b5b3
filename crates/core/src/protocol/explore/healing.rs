//! The promises of new groups after a move, besides those of all models.
//!
//! - All PEs of a view that have one checkpoint have it in the same groups.
//! - A PE that continues after a recovery is in groups that survive the loss of any one node, if
//!   there are any. With local rollback, this holds from the next checkpoint on.
//!
//! Where a node is lost with the PEs placed on it ([`GroupTable::is_by_node`]), groups that are
//! kept, or taken too early or too late, lose more members than their parity covers.

use super::groups::GroupTable;
use super::state::{JobState, PeState, bits};
use crate::settings::Rollback;

impl GroupTable {
    /// Moves PE 2 before the first state, in which all PEs have resumed, if groups change.
    pub fn begin(&self, state: &mut JobState) {
        if self.settings.is_none() {
            return;
        }
        let mut lost = *state;
        lost.pes[2].node_lost = true;
        state.nodes[1] = self.moved(&lost, 2).0;
        for p in 0..4 {
            self.heals(state, p);
        }
    }

    /// Returns the PEs on the node of PE `p`, as bits.
    pub fn on_node_of(&self, state: &JobState, p: usize) -> u8 {
        let nodes = state.nodes_in(state.current).all();
        bits((0..4).filter(|&q| nodes[q] == nodes[p]))
    }

    /// Lets PE `p` encode the checkpoint that it has just resumed from again, if its groups change;
    /// they do not if other PEs are at their end. Otherwise checks the groups with which it
    /// continues, and returns false.
    pub fn resumed(&self, state: &mut JobState, p: usize, ends: bool) -> Result<bool, String> {
        let Some(settings) = &self.settings else { return Ok(false) };
        self.same_groups(state, p)?;
        if ends || self.heals(state, p) {
            return Ok(!ends);
        }
        match settings.rollback {
            Rollback::Local => Ok(false),
            _ => self.saved(state, p).map(|()| false),
        }
    }

    /// Checks the groups of PE `p`, which continues.
    pub fn saved(&self, state: &JobState, p: usize) -> Result<(), String> {
        if self.settings.is_none() {
            return Ok(());
        }
        self.same_groups(state, p)?;
        match self.protects(state, p) {
            true => Ok(()),
            false => Err(format!("durability: PE {p} continues, and one node may end the job")),
        }
    }

    fn same_groups(&self, state: &JobState, p: usize) -> Result<(), String> {
        let pe = &state.pes[p];
        let both = |q: &PeState| q.alive && (q.joined, q.agreed) == (pe.joined, pe.agreed);
        let mut with = state.pes.iter().filter(|q| both(q));
        match with.all(|q| q.groups.last == pe.groups.last) {
            true => Ok(()),
            false => Err(format!("agreement: PE {p} has {} in groups of its own", pe.agreed)),
        }
    }
}
