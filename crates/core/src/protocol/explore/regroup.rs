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

use super::broken::Broken;
use super::groups::{GroupTable, PLACES, VIEWS};
use super::state::{Bytes, JobState, PeState, full, packed};
use crate::placement::Domains;
use crate::placement::moves::{Move, PlaceHistory};
use crate::protocol::{At, Call};
use crate::quantity::{Pe, ViewNumber};
use crate::store::grouped::{Grouped, GroupedCheckpoints, KnownGroups};
use crate::store::protection::Protection;

impl GroupTable {
    /// Returns the plan's verdict on these PEs, with the groups that PE `p` has taken.
    pub fn verdict(&self, state: &JobState, p: usize, sets: usize) -> u8 {
        self.placed[state.taken(p)].verdicts[sets]
    }

    /// Returns the PEs in the group of PE `q`, of those groups that PE `p` has taken.
    pub fn group_of(&self, state: &JobState, p: usize, q: usize) -> u8 {
        self.placed[state.taken(p)].group_of[q]
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
    pub fn take(&self, state: &mut JobState, p: usize, number: u8, broken: Broken) {
        let Some(settings) = &self.settings else { return };
        let living = state.living_in(state.pes[p].view);
        let mut all = GroupedCheckpoints::default();
        for q in (0..self.placed[0].group_of.len()).filter(|q| living >> q & 1 == 1) {
            all.add(&self.brought(state, q, broken));
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
    fn brought(&self, state: &JobState, q: usize, broken: Broken) -> GroupedCheckpoints {
        let pe = &state.pes[q];
        let grouped = |(&bytes, &places): (&Bytes, &u8)| match bytes {
            Bytes::Void => None,
            Bytes::Sealed(number, _) => {
                Some(Grouped { number: full(number), places: ViewNumber(places.into()) })
            }
        };
        if broken == Broken::NewestGroups {
            let newest = [state.current; 2];
            return pe.slots.iter().zip(&newest).filter_map(grouped).collect();
        }
        let sealed = pe.slots.iter().zip(&pe.groups.slots).filter_map(grouped);
        self.known(state, q).bring(sealed)
    }

    fn known(&self, state: &JobState, p: usize) -> KnownGroups {
        let named = |view: u8| Arc::clone(&self.made[state.list_of(view)][usize::from(view)]);
        let groups = &state.pes[p].groups;
        let of = groups.of.iter().filter(|(number, _)| *number != 0);
        let of: BTreeMap<_, _> = of.map(|&(number, view)| (full(number), named(view))).collect();
        let moved = (1..VIEWS as u8).filter(|view| state.moved >> view & 1 == 1);
        let moved = moved.map(|view| Move {
            view: ViewNumber(view.into()),
            pe: Pe(2),
            node: PLACES[state.list_of(view)][2],
        });
        let places = PlaceHistory::new(PLACES[0].to_vec(), moved.collect());
        KnownGroups::restored(places, named(groups.last), of)
    }
}

impl JobState {
    /// Returns the list of places of a view.
    fn list_of(&self, view: u8) -> usize {
        let until = ((2u16 << view) - 1) as u8;
        (self.moved & until).count_ones() as usize % 2
    }

    /// Returns the list of places for which the groups were chosen that PE `p` has taken.
    fn taken(&self, p: usize) -> usize {
        self.list_of(self.pes[p].groups.taken)
    }

    /// True if the parity in a slot of PE `q` is of the groups that PE `p` has taken.
    pub fn is_of_groups(&self, p: usize, (q, slot): (usize, usize)) -> bool {
        self.list_of(self.pes[q].groups.slots[slot]) == self.taken(p)
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
