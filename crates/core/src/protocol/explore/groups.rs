//! Parity groups in the model: those of a PE, and how they change after PEs have moved.
//!
//! In most models all PEs form one group. In the others, a PE that is lost with its node moves, and
//! the places of all PEs then alternate between two lists: with each PE on a node of its own there
//! is one group of four, with two of them on one node there are two pairs. So every move changes
//! the groups. A PE has moved just before the first state, in which all have resumed. The places
//! serve only to choose groups: [`super::model::Model::per_node`] says which PEs a node is lost
//! with.

use std::sync::Arc;

use raidshmem_codec::stripe::Scheme;

use crate::placement::Domains;
use crate::plan::{self, StoreFinding, Unrecoverable};
use crate::quantity::{Pe, ViewNumber};
use crate::settings::{BackupMode, Rollback, Settings};
use crate::store::protection::{GroupLayout, Protection};

/// Maximum number of views of a job, the first included; view 0 names the first groups.
pub const VIEWS: usize = 8;
/// The two lists of places: the node of each PE.
pub const PLACES: [[u32; 4]; 2] = [[0, 1, 2, 3], [0, 1, 1, 3]];

/// The views that name groups, as far as a PE knows or has used them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupNames {
    /// The groups of its current checkpoint.
    pub taken: u8,
    /// The groups of the last checkpoint that was agreed or decided on.
    pub last: u8,
    /// Checkpoints and their groups, as in `KnownGroups`; checkpoint 0 is none.
    pub of: [(u8, u8); 2],
    /// The groups that the parity in each slot was encoded with.
    pub slots: [u8; 2],
    /// True if the PE encodes a restored checkpoint again.
    pub heals: bool,
}

impl GroupNames {
    pub fn pack(self) -> u64 {
        let [(number, places), (other, others)] = self.of;
        let [slot, second] = self.slots;
        let names = [self.taken, self.last, places, others, slot, second];
        let names = names.into_iter().fold(0, |word, view| word << 3 | u64::from(view));
        let numbers = [number, other, u8::from(self.heals)];
        numbers.into_iter().fold(names, |word, number| word << 5 | u64::from(number))
    }

    /// Returns what is left of it when the process has ended: the memory.
    pub fn of_memory(self) -> GroupNames {
        GroupNames { slots: self.slots, ..GroupNames::default() }
    }
}

/// The groups for one list of places.
#[derive(Debug, Clone)]
pub struct PlacedGroups {
    /// The PEs in the group of each PE, as bits.
    pub group_of: Vec<u8>,
    /// The real plan's verdicts, indexed by the PEs without parity and the PEs without snapshot.
    pub verdicts: Vec<u8>,
}

impl PlacedGroups {
    fn new(groups: &[GroupLayout], pes: usize) -> PlacedGroups {
        let bits = |group: &GroupLayout| group.members.iter().fold(0, |all, pe| all | 1 << pe.at());
        let of = |pe: Pe| groups.iter().find(|group| group.members.contains(&pe)).map_or(0, bits);
        let all = |sets| groups.iter().fold(0, |all, group| all | verdict(group, sets));
        let verdicts = (0..256).map(all).collect();
        PlacedGroups { group_of: Pe::all(pes).map(of).collect(), verdicts }
    }

    /// True if no rule distinguishes the groups after this renumbering.
    pub fn same_under(&self, order: &[u8]) -> bool {
        let moved = |set: u8| (0..4).fold(0, |out, p| out | (set >> p & 1) << order[p]);
        let mut pes = 0..self.group_of.len();
        pes.all(|p| moved(self.group_of[p]) == self.group_of[usize::from(order[p])])
    }
}

/// The groups of a model.
#[derive(Debug)]
pub struct GroupTable {
    pub placed: [PlacedGroups; 2],
    /// The settings by which they change, if they do.
    pub settings: Option<Settings>,
    /// The groups for the two lists of places, by the view that names them.
    pub made: [Vec<Arc<Protection>>; 2],
}

impl GroupTable {
    /// Creates one group of all PEs, which does not change.
    pub fn fixed(pes: usize, parity: usize) -> GroupTable {
        let group = GroupLayout::new(Scheme::Rs { parity }, Pe::all(pes).collect());
        let placed = PlacedGroups::new(&[group.expect("a legal shape")], pes);
        GroupTable { placed: [placed.clone(), placed], settings: None, made: Default::default() }
    }

    /// Creates the groups of four PEs, which change. With local rollback they do so at the next
    /// checkpoint of the program.
    pub fn changing(rollback: Rollback) -> GroupTable {
        let settings = Settings { backup_mode: BackupMode::Raid5, rollback, ..Settings::default() };
        let made = PLACES.map(|node_of| {
            let node_of = node_of.map(|node| node as usize);
            let named = |view| {
                let named = ViewNumber(view);
                let made = Protection::named(&settings, &node_of, &Domains::default(), named);
                Arc::new(made.expect("legal settings").expect("a mode that protects"))
            };
            (0..VIEWS as u64).map(named).collect::<Vec<_>>()
        });
        let placed = made.each_ref().map(|made| PlacedGroups::new(&made[1].shapes, 4));
        assert_eq!(placed.each_ref().map(|placed| placed.group_of[0].count_ones()), [4, 2]);
        GroupTable { placed, settings: Some(settings), made }
    }
}

/// Returns the real plan's verdict on a group, as a PE's words, if the PEs in the low half of
/// `sets` miss their snapshot and those in the high half their parity; 0 if everything can be
/// rebuilt.
fn verdict(group: &GroupLayout, sets: usize) -> u8 {
    let (layout, members) = (&group.layout, &group.members);
    let (snapshots, parities) = (sets & 15, sets >> 4);
    let finding = |at: usize| {
        let (place, all) = (members[at].at(), StoreFinding::lost(layout, at));
        StoreFinding {
            snapshot: if snapshots >> place & 1 == 1 { all.snapshot } else { 0 },
            parity: if parities >> place & 1 == 1 { all.parity } else { 0 },
            empty: false,
        }
    };
    let findings: Vec<StoreFinding> = (0..layout.members()).map(finding).collect();
    let mask = |pes: Vec<Pe>| pes.into_iter().fold(0, |mask, pe| mask | 1u8 << pe.0);
    match plan::check(0, layout, members, &findings, true) {
        Ok(()) => 0,
        Err(Unrecoverable { pes, damaged, .. }) => mask(pes) | mask(damaged) << 4,
    }
}
