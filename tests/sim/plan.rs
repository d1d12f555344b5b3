//! The meaning of a seed: the job's size, all delays, and the losses with their times.

use std::sync::Arc;

use raidshmem_core::mutant::Mutant;
use raidshmem_core::placement::Domains;
use raidshmem_core::protocol::At;
use raidshmem_core::quantity::CheckpointNumber;
use raidshmem_core::settings::{Background, BackupMode, Delta, Settings, Substitute, Track};
use raidshmem_core::store::protection::Protection;

use super::drain::PlannedMove;
use super::memory::{Chance, TILE, tiles};

/// The extent of the losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// At most as many PEs of a group at once as it has parities: the job must complete.
    Within,
    /// One more, at one moment: every PE must report it.
    Beyond,
}

/// A rule broken on purpose, to test the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// A rule that can also be broken in the library.
    Rule(Mutant),
    /// A PE that rolls forward takes its peers' writes to its second snapshot for complete,
    /// although one of them did not finish.
    SnapshotBelieved,
    /// An agent reports a view as published too early.
    ShownTooEarly,
    /// The store's contents are believed without their checksums.
    ChecksumsIgnored,
    /// Parity that no rebuild has read is assumed valid.
    UnreadBelieved,
    /// Remote PEs see that a PE has reached a meeting before they see its contribution.
    StepBeforeWords,
    /// Posts carry no tag, and PEs do not disconnect from the dead: their transfers in flight
    /// overwrite the substitute's posts.
    WordsNotTagged,
    /// Live memory is restored from unchecked tiles.
    RestoredUnchecked,
    /// A parity tile is carried into the other slot without checking its old checksum.
    CarriedUnchecked,
    /// Parity is updated from a source's old contents without checking their checksum.
    UpdatedUnchecked,
    /// An unchanged snapshot tile is sealed as it is, damaged or not.
    StampedAnew,
    /// A PE without a base for comparison reports no changes.
    SilenceIsNoChange,
    /// Peers' writes to a PE are not collected.
    PeersForgotten,
    /// A substitute votes for memory that it has not saved before its program ran.
    LiveNotRescued,
    /// A process starts tracking only after it has left the checkpoint: peers left earlier.
    WatchedTooLate,
    /// A PE in `shmem_finalize` waits there for the others, whatever they need.
    EndIgnoresLosses,
}

/// The harm done to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    Process,
    /// Every process, at one moment; their memory survives.
    AtOnce,
    Node,
    /// A remote PE's connection to it breaks, although it is alive.
    Suspect,
    /// Bits of the store flip, in the memory of a surviving PE.
    Flip,
    /// Like [`Harm::Flip`], but unnoticed: the damage waits for the next recovery. The scrub may
    /// have found it without repairing it, and then its PE has no base for comparison in the next
    /// checkpoint.
    Rot,
}

/// The reason to refuse a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    Manifest,
    /// One byte is missing on the PE's machine; every other machine has exactly what it needs.
    Machine,
}

/// The time of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Time(u64),
    /// The moment when the PE reaches that step, after the checkpoint.
    Step(usize, At, CheckpointNumber),
}

#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub when: When,
    pub harm: Harm,
    pub pe: usize,
    pub fired: bool,
    pub tries: u32,
}

/// The decisions that a seed makes before the job starts.
pub struct Plan {
    pub seed: u64,
    pub mode: Mode,
    pub broken: Broken,
    pub settings: Settings,
    pub node_of: Vec<u32>,
    pub nodes: u32,
    pub spares: Vec<u32>,
    pub protection: Arc<Protection>,
    /// PEs of different nodes cannot look into each other's memory.
    pub far: bool,
    /// True if a third node is asked which of two PEs must end.
    pub asked: bool,
    /// True if the detector declares nodes lost.
    pub heartbeat: bool,
    /// The program ends after this checkpoint.
    pub last: CheckpointNumber,
    /// The longest delay of a message and of a step, and the longest stall.
    pub message: usize,
    pub step: usize,
    pub stall: usize,
    /// Bytes of the smallest snapshot.
    pub len: usize,
    /// The share of tiles that change between checkpoints: one in this many.
    pub still: Option<usize>,
    /// True if the program calls the checkpoint at two places.
    pub two: bool,
    /// A PE that cannot take part in a checkpoint, once: its manifest or its machine is full.
    pub refusal: Option<(usize, CheckpointNumber, Short)>,
    /// A PE whose kernel cannot track pages.
    pub denied: Option<usize>,
    pub faults: Vec<Fault>,
    pub moves: Vec<PlannedMove>,
    pub chance: Chance,
}

const STEPS: [At; 22] = {
    use At::*;
    [
        Intend,
        BarrierQ,
        Encode,
        Publish,
        BarrierA,
        Copy,
        BarrierB,
        MeetSettling,
        Decide,
        MeetDecided,
        Finish,
        MeetSettled,
        Whole,
        Verify,
        Judge,
        MeetJudged,
        Rebuild,
        Restore,
        Reencode,
        MeetEncoded,
        Reset,
        Join,
    ]
};

/// PEs of a group, and of a node, in a large job.
pub const LARGE_GROUP: usize = 8;
const LARGE_NODE: usize = 16;

/// Draws the parity and the number of PEs.
fn choose_size(chance: &mut Chance) -> (usize, usize) {
    let parity = chance.pick(&[1, 1, 2, 2, 3]);
    let pes = match chance.below(16) {
        0 => 130 + chance.below(170),
        1..=3 => 24 + chance.below(80),
        _ => parity + 2 + chance.below(16),
    };
    (parity, pes)
}

impl Plan {
    fn choose_refusal(&mut self) {
        if self.chance.one_in(3) {
            let mut other = Chance::new(self.seed.rotate_left(32));
            let (short, pes) = (other.pick(&[Short::Manifest, Short::Machine]), self.node_of.len());
            self.refusal = Some((
                self.chance.below(pes),
                CheckpointNumber(1 + self.chance.below(2) as u64),
                short,
            ));
        }
    }

    pub fn new(seed: u64, mode: Mode, broken: Broken) -> Plan {
        let mut chance = Chance::new(seed);
        let pair = mode == Mode::Within && Chance::new(seed ^ 0x2be5).one_in(20);
        let (parity, pes) = if pair { (1, 2) } else { choose_size(&mut chance) };
        let per_node = 1 + chance.below((pes / (parity + 3)).clamp(1, 8));
        let node_of: Vec<u32> = (0..pes).map(|pe| (pe / per_node) as u32).collect();
        let on_nodes = node_of[pes - 1] + 1;
        let size = if pair { 2 } else { parity + 2 + chance.below(5) };
        let spare = mode == Mode::Within && chance.one_in(4);
        let spares: Vec<u32> = match spare {
            true => (0..64).map(|spare| on_nodes + spare / 8).collect(),
            false => Vec::new(),
        };
        let settings = Settings {
            backup_mode: BackupMode::Rs,
            group_size: Some(size),
            parity,
            snapshots: 1 + Chance::new(!seed).below(2),
            background: Chance::new(seed ^ 0x9a27).pick(&[Background::On, Background::Off]),
            substitute: if spare { Substitute::Spare } else { Substitute::Spawn },
            adopt: !chance.one_in(4),
            max_restarts: 1000,
            ..Settings::default()
        };
        let places: Vec<usize> = node_of.iter().map(|&node| node as usize).collect();
        let protection =
            Protection::new(&settings, &places, &Domains::default()).expect("a legal shape");
        let nodes = on_nodes + if spare { 8 } else { 2 };
        let (message, step) = (chance.pick(&[3, 30, 300]), chance.pick(&[2, 10, 100]));
        let mut plan = Plan {
            seed,
            mode,
            broken,
            settings,
            node_of,
            nodes,
            spares,
            protection: Arc::new(protection.expect("a mode that protects")),
            far: pes <= 64 && chance.one_in(3),
            heartbeat: nodes <= 16 && chance.one_in(3),
            last: CheckpointNumber(3 + chance.below(4) as u64),
            message,
            step,
            stall: chance.pick(&[100, 3000]),
            len: 1 + chance.below(6 * TILE),
            asked: false,
            still: None,
            two: Chance::new(seed ^ 2).one_in(3),
            refusal: None,
            denied: None,
            faults: Vec::new(),
            moves: Vec::new(),
            chance,
        };
        plan.choose_refusal();
        if plan.chance.one_in(2) {
            plan.still = Some(plan.chance.pick(&[2, 5, 20]));
            plan.last.0 += plan.chance.below(4) as u64;
            plan.settings.delta = plan.chance.pick(&[Delta::On, Delta::On, Delta::Auto]);
            plan.settings.track = plan.chance.pick(&[Track::Pages, Track::Auto, Track::Digests]);
            plan.denied = plan.chance.one_in(4).then(|| plan.chance.below(pes));
        }
        plan.asked = plan.far && plan.chance.one_in(2);
        plan.choose_faults();
        plan.choose_moves();
        if pair {
            plan.lose_one_after_the_other();
        }
        plan
    }

    /// Returns a large job of remote nodes; the process of PE `lost`, if any, is lost while it
    /// encodes.
    pub fn large(pes: usize, lost: Option<usize>) -> Plan {
        let node_of: Vec<u32> = (0..pes).map(|pe| (pe / LARGE_NODE) as u32).collect();
        let settings = Settings {
            backup_mode: BackupMode::Rs,
            group_size: Some(LARGE_GROUP.min(node_of[pes - 1] as usize + 1).max(2)),
            parity: 1,
            ..Settings::default()
        };
        let places: Vec<usize> = node_of.iter().map(|&node| node as usize).collect();
        let protection =
            Protection::new(&settings, &places, &Domains::default()).expect("a legal shape");
        let number = CheckpointNumber(2);
        let fault = |pe: usize| {
            let when = When::Step(pe, At::Encode, number);
            Fault { when, harm: Harm::Process, pe, fired: false, tries: 0 }
        };
        Plan {
            seed: pes as u64,
            mode: Mode::Within,
            broken: Broken::Nothing,
            settings,
            nodes: node_of[pes - 1] + 1,
            node_of,
            spares: Vec::new(),
            protection: Arc::new(protection.expect("a mode that protects")),
            far: true,
            heartbeat: false,
            last: CheckpointNumber(3),
            message: 30,
            step: 10,
            stall: 100,
            len: 2 * TILE,
            asked: false,
            still: None,
            two: false,
            refusal: None,
            denied: None,
            faults: lost.into_iter().map(fault).collect(),
            moves: Vec::new(),
            chance: Chance::new(pes as u64),
        }
    }

    fn choose_faults(&mut self) {
        let count = match self.mode {
            Mode::Within => 1 + self.chance.below(6),
            Mode::Beyond => 1,
        };
        for index in 0..count {
            let chance = &mut self.chance;
            let pes = self.node_of.len();
            let when = match chance.below(4) {
                0 => When::Time(chance.below(30 * (self.message + 10 * self.step)) as u64),
                _ => {
                    let checkpoint = 1 + chance.below(self.last.0 as usize - 1) as u64;
                    // A recovery needs an earlier loss.
                    let steps = if index == 0 { &STEPS[..7] } else { &STEPS[..] };
                    When::Step(chance.below(pes), chance.pick(steps), CheckpointNumber(checkpoint))
                }
            };
            let often = if self.far { Harm::Suspect } else { Harm::Process };
            let hidden = if self.still.is_some() { Harm::Rot } else { Harm::Flip };
            let harm = chance.pick(&[Harm::Process, often, Harm::Node, Harm::Flip, hidden]);
            // Hidden damage comes first, and then a loss in the same group that hits it.
            let hides = index == 0 && self.still.is_some() && chance.one_in(2);
            let harm = if hides { Harm::Rot } else { harm };
            let pe = match self.faults.first() {
                Some(first) if chance.one_in(2) => {
                    let group = self.protection.plan.of[first.pe].group;
                    let members = &self.protection.shapes[group].members;
                    members[chance.below(members.len())].at()
                }
                _ => chance.below(pes),
            };
            self.faults.push(Fault { when, harm, pe, fired: false, tries: 0 });
        }
        // Spares are on other nodes, and adopt no memory.
        let adopts = self.settings.adopt && self.spares.is_empty();
        let mut other = Chance::new(!self.seed ^ 0xa11);
        if let Some(last) = self.faults.last_mut().filter(|_| adopts && other.one_in(4)) {
            last.harm = Harm::AtOnce;
        }
    }

    /// Plans nodes that are drained or join, in some jobs without heartbeats, which fix the nodes.
    fn choose_moves(&mut self) {
        let mut other = Chance::new(self.seed ^ 0xd7a1);
        if self.mode == Mode::Beyond || self.heartbeat || !other.one_in(4) {
            return;
        }
        for _ in 0..1 + other.below(3) {
            let time = other.below(30 * (self.message + 10 * self.step)) as u64;
            self.moves.push(PlannedMove { time, joins: other.one_in(2), tries: 0 });
        }
        self.last.0 += 2;
    }

    /// Plans the loss of both PEs with their nodes: the second as soon as the first one's
    /// substitute has all bytes, which it knows only by the decision that it wrote.
    fn lose_one_after_the_other(&mut self) {
        (self.message, self.step) = (300, 2); // the first PE at that step is alone there
        let (first, number) = (self.chance.below(2), CheckpointNumber(1));
        self.faults = [(first, &STEPS[..7]), (1 - first, &[At::Reset])]
            .map(|(pe, steps)| {
                let when = When::Step(1 - first, self.chance.pick(steps), number);
                Fault { when, harm: Harm::Node, pe, fired: false, tries: 0 }
            })
            .into();
    }

    /// Returns the bytes of PE `pe` at checkpoint `number`, of which only the number that programs
    /// see counts; their count is the same on every PE.
    pub fn content(&self, pe: usize, number: u64) -> Vec<u8> {
        let number = CheckpointNumber(number).program();
        if let Some(still) = self.still {
            return self.still_content(pe, number, still);
        }
        let mut chance = Chance::new(self.seed ^ (pe as u64) << 40 ^ number << 20);
        let len = self.len + (number as usize * 7) % (2 * TILE);
        let words = (0..len.div_ceil(8)).flat_map(|_| chance.next().to_le_bytes());
        words.take(len).collect()
    }

    /// Returns contents of constant length; one in `still` tiles changes with each checkpoint.
    fn still_content(&self, pe: usize, number: u64, still: usize) -> Vec<u8> {
        let tile = |tile: usize| {
            let chance = |number: u64| {
                let at = (pe as u64) << 40 ^ number << 20 ^ (tile as u64) << 50;
                Chance::new(self.seed ^ at)
            };
            let changed = (1..=number).rev().find(|&n| n == 1 || chance(n).one_in(still));
            let mut chance = chance(changed.unwrap_or(1));
            [chance.next(), chance.next()].map(u64::to_le_bytes).concat()
        };
        let all = (0..tiles(self.len)).flat_map(tile);
        all.take(self.len).collect()
    }

    pub fn snapshot_of(&self, number: u64) -> usize {
        match self.broken {
            Broken::Rule(Mutant::SnapshotReused) => 0,
            _ => self.protection.snapshot_of(CheckpointNumber(number)),
        }
    }

    pub fn slot_of(&self, number: u64) -> usize {
        match self.broken {
            Broken::Rule(Mutant::SlotReused) => 0,
            _ => self.protection.slot_of(CheckpointNumber(number)),
        }
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pes, groups) = (self.node_of.len(), self.protection.shapes.len());
        let (parity, adopt) = (self.settings.parity, self.settings.adopt);
        writeln!(
            f,
            "seed {} {:?}: {pes} {}PEs in {groups} groups, parity {parity}, snapshots {}, \
             {} nodes, {} spares, adopt {adopt}, {}to checkpoint {}",
            self.seed,
            self.mode,
            if self.far { "far " } else { "" },
            self.settings.snapshots,
            self.nodes,
            self.spares.len(),
            if self.two { "two places, " } else { "" },
            self.last
        )?;
        write!(f, "delays: message {} step {} stall {}; ", self.message, self.step, self.stall)?;
        for Fault { when, harm, pe, .. } in &self.faults {
            write!(f, "{harm:?} of PE {pe} at {when:?}; ")?;
        }
        Ok(())
    }
}
