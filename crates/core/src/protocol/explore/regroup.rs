//! The rules by which groups change, in the model: those of the library.
//!
//! [`KnownGroups`] decides when groups change, and which decode a checkpoint. It is restored from
//! the views that name the groups, which a state keeps.
//!
//! A process reads the knowledge of the others when it decides, not when they arrive. Those that
//! decided before have dropped all but the groups of the same checkpoint.
//!
//! Left out: new groups that are refused, parity over read-only memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::groups::{GroupTable, NodeOf, PlacedGroups, Relocation};
use super::state::{Bytes, JobState, PeState, full, packed};
use crate::placement::Domains;
use crate::placement::moves::{Move, PlaceHistory};
use crate::placement::substitute::SubstituteNode;
use crate::protocol::{At, Call};
use crate::quantity::{Pe, ViewNumber};
use crate::store::grouped::{Grouped, GroupedCheckpoints, KnownGroups};
use crate::store::protection::Protection;

impl GroupTable {
    /// Returns the plan's verdict on these PEs, with the groups that PE `p` has taken.
    pub fn verdict(&self, state: &JobState, p: usize, sets: usize) -> u8 {
        self.taken(state, p).verdicts[sets]
    }

    /// Returns the PEs in the group of PE `q`, of those groups that PE `p` has taken.
    pub fn group_of(&self, state: &JobState, p: usize, q: usize) -> u8 {
        self.taken(state, p).group_of[q]
    }

    /// Returns the groups that PE `p` has taken.
    fn taken(&self, state: &JobState, p: usize) -> &PlacedGroups {
        self.over(state.nodes_in(state.pes[p].groups.taken))
    }

    /// True if the parity in a slot of PE `q` is of the groups that PE `p` has taken.
    pub fn is_of_groups(&self, state: &JobState, p: usize, (q, slot): (usize, usize)) -> bool {
        let encoded = self.over(state.nodes_in(state.pes[q].groups.slots[slot]));
        encoded.group_of == self.taken(state, p).group_of
    }

    /// True if PE `p` has taken groups that survive the loss of any one node, or none would.
    pub fn protects(&self, state: &JobState, p: usize) -> bool {
        let pe = &state.pes[p];
        let places = state.nodes_in(pe.joined);
        let survives = |groups: &PlacedGroups, named: u8| {
            groups.made[usize::from(named)].survives_at(&places.all(), &Domains::default())
        };
        survives(self.taken(state, p), pe.groups.taken) || !survives(self.over(places), pe.joined)
    }

    /// Returns the places after PE `p`, lost with its node, has moved.
    pub fn moved(&self, state: &JobState, p: usize) -> NodeOf {
        let places = state.nodes_in(state.current);
        let nodes = places.all();
        let living =
            (0..4).filter(|&node| (0..4).any(|q| nodes[q] == node && !state.pes[q].node_lost));
        let known = state.pes.iter().filter(|pe| pe.alive).map(|pe| pe.groups.last);
        let groups = known.max().unwrap_or(0);
        let made = &self.over(state.nodes_in(groups)).made[usize::from(groups)];
        let node = match self.relocation {
            Relocation::Alternates => match places {
                NodeOf::APART => return NodeOf::MOVED,
                _ => return NodeOf::APART,
            },
            Relocation::Best => {
                let places = living.map(|node| SubstituteNode { node, spare: false });
                let layout = made.job_layout(&Domains::default());
                layout.best(Pe::of(p), &nodes, places).map(|place| place.node)
            }
            Relocation::Worst => living.max_by_key(|&node| {
                let (group, own) = (&made.plan.of, made.plan.of[p].group);
                (0..4).filter(|&q| q != p && nodes[q] == node && group[q].group == own).count()
            }),
        };
        places.with(p, node.expect("a node is left"))
    }

    /// Chooses the groups for the checkpoint call that PE `p` begins.
    pub fn choose(&self, state: &mut JobState, p: usize) {
        let pe = &state.pes[p];
        let Some(settings) = self.settings.as_ref().filter(|_| pe.joined != 0) else { return };
        let mut known = self.known(state, p);
        let (last, at) = (known.last().expect("a number"), full(pe.agreed).next());
        let at = (at, ViewNumber(pe.joined.into()));
        let taken = known.choose((settings, &Domains::default()), &last, at, true);
        state.note(p, &known, &taken);
    }

    /// Begins to encode the checkpoint that PE `p` has just resumed from again, if its groups
    /// change. False if they stay.
    pub fn heals(&self, state: &mut JobState, p: usize) -> bool {
        let Some(settings) = &self.settings else { return false };
        let (pe, mut known) = (&state.pes[p], self.known(state, p));
        let last = known.last().expect("a number");
        let at = (full(pe.agreed), ViewNumber(pe.joined.into()));
        let Some(taken) = known.heal((settings, &Domains::default()), &last, at) else {
            return false;
        };
        state.note(p, &known, &taken);
        let pe = &mut state.pes[p];
        (pe.call, pe.at, pe.groups.heals) = (Call::Checkpoint, Some(At::Intend), true);
        true
    }

    /// Switches PE `p` to the groups of the checkpoint that was decided on, and voids parity of
    /// later ones.
    pub fn take(&self, state: &mut JobState, p: usize, number: u8) {
        let Some(settings) = &self.settings else { return };
        let living = state.living_in(state.pes[p].view);
        let mut all = GroupedCheckpoints::default();
        for q in (0..4).filter(|q| living >> q & 1 == 1) {
            all.add(&self.brought(state, q));
        }
        for slot in &mut state.pes[p].slots {
            if matches!(slot, Bytes::Sealed(held, _) if full(*held) > full(number)) {
                *slot = Bytes::Void;
            }
        }
        let mut known = self.known(state, p);
        let taken = known.decide((settings, &Domains::default()), &all, full(number));
        state.note(p, &known, &taken);
    }

    /// Returns the contribution of PE `q` to the settling meeting.
    fn brought(&self, state: &JobState, q: usize) -> GroupedCheckpoints {
        let pe = &state.pes[q];
        let grouped = |(&bytes, &places): (&Bytes, &u8)| match bytes {
            Bytes::Void => None,
            Bytes::Sealed(number, _) => {
                Some(Grouped { number: full(number), places: ViewNumber(places.into()) })
            }
        };
        let sealed = pe.slots.iter().zip(&pe.groups.slots).filter_map(grouped);
        self.known(state, q).bring(sealed)
    }

    fn known(&self, state: &JobState, p: usize) -> KnownGroups {
        let named = |view: u8| Arc::clone(&self.over(state.nodes_in(view)).made[usize::from(view)]);
        let groups = &state.pes[p].groups;
        let of = groups.of.iter().filter(|(number, _)| *number != 0);
        let of: BTreeMap<_, _> = of.map(|&(number, view)| (full(number), named(view))).collect();
        let first = NodeOf::APART.all().map(|node| node as u32).to_vec();
        let mut places = PlaceHistory::new(first, Vec::<Move>::new());
        for view in 1..=state.current {
            let nodes = state.nodes_in(view).all().map(|node| node as u32);
            places.note(ViewNumber(view.into()), nodes.into_iter());
        }
        KnownGroups::restored(places, named(groups.last), of)
    }
}

impl JobState {
    /// Returns the places of all PEs in a view.
    pub fn nodes_in(&self, view: u8) -> NodeOf {
        NodeOf(self.nodes[usize::from(view)])
    }

    /// Records what PE `p` knows now, and the groups that it takes.
    fn note(&mut self, p: usize, known: &KnownGroups, taken: &Protection) {
        let groups = &mut self.pes[p].groups;
        groups.taken = taken.places.0 as u8;
        groups.last = known.last().map_or(0, |last| last.places.0 as u8);
        groups.of = [(0, 0); 2];
        for (at, (&number, made)) in groups.of.iter_mut().zip(known.of()) {
            *at = (packed(number), made.places.0 as u8);
        }
    }
}

impl PeState {
    /// True if its last checkpoint has other groups than the first one.
    pub fn is_regrouped(&self) -> bool {
        self.groups.last != 0
    }

    /// Records that the current groups are those of the checkpoint just agreed.
    pub fn keep_groups(&mut self) {
        (self.groups.last, self.groups.heals) = (self.groups.taken, false);
    }
}
