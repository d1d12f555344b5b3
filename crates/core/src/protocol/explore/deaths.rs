//! Deaths in the model, of processes and nodes, and substitutes that the launcher starts.

use super::model::{Broken, Model};
use super::state::{JobState, PeState, among, bits, packed};
use crate::mutant::Mutant;
use crate::store::inherited::is_borne_out;

impl Model {
    /// Collects the states after a step of the launcher, or a death, that concerns PE `p`.
    pub fn launcher(&self, state: &JobState, p: usize, out: &mut Vec<JobState>) {
        let pes = || self.pes(state).iter();
        let ended = |pe: &PeState| pe.alive && pe.finished && pe.joined == state.current;
        let over = pes().all(ended) || pes().any(|pe| pe.alive && pe.unrecoverable);
        if over || pes().all(|pe| !pe.alive && pe.node_lost) {
            return; // the launcher lets all PEs leave, or ends the job with an error
        }
        if self.all_at_once && state.deaths > 0 && p == 0 && pes().all(|pe| pe.alive) {
            let mut next = self.lose(state, (1 << self.pes) - 1, false);
            next.since_whole = state.since_whole;
            out.push(next);
        }
        if state.deaths > 0 && state.pes[p].alive {
            out.push(self.lose(state, 1 << p, false));
        }
        let here = match self.groups.is_by_node() {
            true => self.groups.on_node_of(state, p),
            false => bits((0..self.pes).filter(|q| q / self.per_node == p / self.per_node)),
        };
        let is_first = here.trailing_zeros() as usize == p;
        let is_lost = || among(here).all(|p| state.pes[p].node_lost);
        if state.deaths > 0 && is_first && !is_lost() && state.has_views_for(here) {
            out.push(self.lose(state, here, true));
        }
        let seen = pes().all(|pe| !pe.alive || pe.shown == state.current);
        if !state.pes[p].alive && (seen || self.lazy) {
            let mut next = *state;
            for pe in next.pes[..self.pes].iter_mut().filter(|pe| pe.alive) {
                pe.shown = state.current;
            }
            let moves = next.pes[p].node_lost && self.groups.settings.is_some();
            let nodes = moves.then(|| self.groups.moved(state, p));
            if next.pes[p].node_lost {
                next.pes[p].wipe();
            }
            self.begin(&mut next.pes[p], state.current);
            next.pes[p].places.before = self.two;
            next.order(state.living_in(state.current) | 1 << p);
            if let Some(nodes) = nodes {
                next.nodes[usize::from(next.current)] = nodes.0;
            }
            out.push(next);
        }
    }

    fn begin(&self, pe: &mut PeState, shown: u8) {
        if self.broken == Broken::Rule(Mutant::DeadVoteIgnored) {
            (pe.phase, pe.decided) = (None, None);
        }
        if self.broken == Broken::LiveNotRescued {
            pe.live = None;
        }
        let (snapshots, slots) = (pe.snapshots, pe.slots);
        let snapshot = |n| snapshots[self.snapshot(packed(n))].is(packed(n));
        let slot = |n| slots[self.slot(packed(n))].is(packed(n));
        pe.phase = pe.phase.filter(|&phase| is_borne_out(phase, snapshot, slot));
        pe.begin(shown);
    }

    /// Makes processes die, or a node with all its processes; `lost` has a bit per PE.
    pub fn lose(&self, state: &JobState, lost: u8, node: bool) -> JobState {
        let mut next = *state;
        next.deaths -= 1;
        let mut living = state.living_in(state.current);
        for p in among(lost) {
            living &= !(1 << p);
            next.since_whole |= 1 << p;
            next.pes[p].die();
            next.pes[p].node_lost |= node;
            if self.broken == Broken::Rule(Mutant::WipedTooEarly) && node {
                next.pes[p].wipe();
            }
        }
        next.order(living);
        next
    }
}
