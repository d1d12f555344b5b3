//! Parity groups in the model: those of a PE, and how they change after PEs have moved.
//!
//! In most models all PEs form one group. In the others, a PE that is lost with its node moves, and
//! groups are chosen by the library over the places of all PEs ([`Relocation`]).

use std::sync::{Arc, OnceLock};

use raidshmem_codec::stripe::Scheme;

use crate::placement::Domains;
use crate::plan::{self, StoreFinding, Unrecoverable};
use crate::quantity::{Pe, ViewNumber};
use crate::settings::{BackupMode, Rollback, Settings};
use crate::store::protection::{GroupLayout, Protection};

/// Maximum number of views of a job, the first included; view 0 names the first groups.
pub const VIEWS: usize = 8;

/// The node of each PE, in a state: two bits per PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeOf(pub u8);

impl NodeOf {
    /// Each PE is on a node of its own, as at the start.
    pub const APART: NodeOf = NodeOf(0b11_10_01_00);
    /// PE 2 has moved to node 1.
    pub const MOVED: NodeOf = NodeOf(0b11_01_01_00);

    pub fn all(self) -> [usize; 4] {
        std::array::from_fn(|p| usize::from(self.0 >> (2 * p) & 3))
    }

    /// Returns the places after PE `p` has moved.
    pub fn with(self, p: usize, node: usize) -> NodeOf {
        NodeOf(self.0 & !(3 << (2 * p)) | (node as u8) << (2 * p))
    }
}

/// The rule by which a PE moves that is lost with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relocation {
    /// PE 2 moves to node 1, or back. With each PE on a node of its own there is one group of four,
    /// otherwise there are two pairs, so every move changes the groups, and the PEs of both pairs
    /// can be renumbered. A node is lost with one PE, whatever its places are.
    Alternates,
    /// To the node that the launcher chooses. A node is lost with all PEs on it, and stays
    /// lost.
    Best,
    /// To a node with as many members of its group as possible, so that every move needs new
    /// groups; otherwise like `Best`.
    Worst,
}

impl std::fmt::Display for Relocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Relocation::Alternates => "",
            Relocation::Best => ", PEs move to the best node",
            Relocation::Worst => ", PEs move to the worst node",
        })
    }
}

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
#[derive(Debug)]
pub struct PlacedGroups {
    /// The PEs in the group of each PE, as bits.
    pub group_of: Vec<u8>,
    /// The real plan's verdicts, indexed by the PEs without parity and the PEs without snapshot.
    pub verdicts: Vec<u8>,
    /// The groups, by the view that names them, if they change.
    pub made: Vec<Arc<Protection>>,
}

impl PlacedGroups {
    fn new(groups: &[GroupLayout], pes: usize, made: Vec<Arc<Protection>>) -> PlacedGroups {
        let bits = |group: &GroupLayout| group.members.iter().fold(0, |all, pe| all | 1 << pe.at());
        let of = |pe: Pe| groups.iter().find(|group| group.members.contains(&pe)).map_or(0, bits);
        let all = |sets| groups.iter().fold(0, |all, group| all | verdict(group, sets));
        let verdicts = (0..256).map(all).collect();
        PlacedGroups { group_of: Pe::all(pes).map(of).collect(), verdicts, made }
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
    /// The groups for each list of places, made when they are first needed.
    placed: Vec<OnceLock<PlacedGroups>>,
    /// The settings by which they change, if they do.
    pub settings: Option<Settings>,
    pub relocation: Relocation,
}

impl GroupTable {
    /// Creates one group of all PEs, which does not change.
    pub fn fixed(pes: usize, parity: usize) -> GroupTable {
        let group = GroupLayout::new(Scheme::Rs { parity }, Pe::all(pes).collect());
        let group = group.expect("a legal shape");
        let placed = PlacedGroups::new(&[group], pes, Vec::new());
        let placed = vec![OnceLock::from(placed)];
        GroupTable { placed, settings: None, relocation: Relocation::Alternates }
    }

    /// Creates the groups of four PEs, which change. With local rollback they do so at the next
    /// checkpoint of the program.
    pub fn changing(rollback: Rollback, relocation: Relocation) -> GroupTable {
        let settings = Settings { backup_mode: BackupMode::Raid5, rollback, ..Settings::default() };
        let placed = (0..256).map(|_| OnceLock::new()).collect();
        let table = GroupTable { placed, settings: Some(settings), relocation };
        let sizes = table.alternating().map(|placed| placed.group_of[0].count_ones());
        assert_eq!(sizes.collect::<Vec<_>>(), [4, 2]);
        table
    }

    /// Returns the groups over these places.
    pub fn over(&self, places: NodeOf) -> &PlacedGroups {
        let Some(settings) = &self.settings else {
            return self.placed[0].get().expect("the only groups");
        };
        self.placed[usize::from(places.0)].get_or_init(|| {
            let named = |view| {
                let (nodes, named) = (places.all(), ViewNumber(view));
                let made = Protection::named(settings, &nodes, &Domains::default(), named);
                Arc::new(made.expect("legal settings").expect("a mode that protects"))
            };
            let made: Vec<_> = (0..VIEWS as u64).map(named).collect();
            PlacedGroups::new(&made[1].shapes, 4, made.clone())
        })
    }

    /// Returns all groups of a model that can be renumbered.
    pub fn alternating(&self) -> impl Iterator<Item = &PlacedGroups> {
        let places = [NodeOf::APART, NodeOf::MOVED];
        let count = if self.settings.is_some() { 2 } else { 1 };
        places.into_iter().take(count).map(|places| self.over(places))
    }

    /// True if a node is lost with all PEs on it.
    pub fn is_by_node(&self) -> bool {
        self.relocation != Relocation::Alternates
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
