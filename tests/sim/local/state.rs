//! The state of a simulated job with logs: processes, the memory of PEs, and their logs.
//!
//! A log is in the memory of its PE, and goes with it. Its replica, in the memory of a PE on
//! another node, holds the records that the owner wrote while it kept one.

use std::any::Any;
use std::rc::Rc;

use raidshmem_core::quantity::{CheckpointNumber, Incarnation, ViewNumber};
use raidshmem_core::replay::far::LogInterval;
use raidshmem_core::replay::far::links::FarLinks;
use raidshmem_core::replay::log::{AtomicOutcome, Carried, LogRecord, Stage};
use raidshmem_core::replay::own::Replay;
use raidshmem_core::replay::port::LogMode;
use raidshmem_core::store::phase::Phase;
use raidshmem_core::view::View;

use super::program::{REGISTERS, WORDS};

/// A record and its mutable state.
#[derive(Debug, Clone)]
pub struct Entry {
    pub record: LogRecord,
    pub payload: Vec<u8>,
    pub compared: u64,
    pub state: Carried,
    pub found: AtomicOutcome,
    pub repeats: u64,
}

/// The log of a PE.
#[derive(Debug, Clone)]
pub struct Log {
    pub entries: Vec<Entry>,
    /// The view in which all PEs rolled back last, and the checkpoint that it begins at.
    pub era: u64,
    pub interval: CheckpointNumber,
    /// The memory of the PE that it is in; None once that is lost.
    pub memory: Option<u32>,
    /// True if other PEs have not sent all records again that its owner had taken.
    pub lacks: bool,
    /// PE and memory that keep a replica, and the number of records there.
    pub replica: Option<(usize, u32, usize)>,
    pub met: u64,
    pub flight: Option<usize>,
    pub stage: (Incarnation, Stage),
    /// The cursor up to which its owner has taken over the log of each PE.
    pub taken: Vec<usize>,
    /// The number of the last record that each far PE has acknowledged.
    pub acked: Vec<u64>,
}

impl Log {
    /// Creates an empty log in this memory.
    pub fn new(n_pes: usize, memory: Option<u32>) -> Log {
        Log {
            entries: Vec::new(),
            era: 1,
            interval: CheckpointNumber::START,
            memory,
            lacks: false,
            replica: None,
            met: 0,
            flight: None,
            stage: (Incarnation::FIRST, Stage::Direct),
            taken: vec![0; n_pes],
            acked: vec![0; n_pes],
        }
    }

    /// Returns its interval.
    pub fn log_interval(&self) -> LogInterval {
        LogInterval { era: self.era, checkpoint: self.interval.0 }
    }
}

/// The memory of a PE, one after each loss of its node.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub words: [u64; WORDS],
    /// Arrivals since its PE joined its view.
    pub arrived: usize,
    pub phase: Option<Phase>,
}

/// The state that outlives the processes of a PE.
#[derive(Debug, Clone)]
pub struct Shared {
    pub memories: Vec<Memory>,
    pub log: Log,
    /// The mirrors of the logs of far PEs.
    pub mirrors: Vec<Log>,
    /// Memory and call of each checkpoint, which the parity protects.
    pub saved: Vec<([u64; WORDS], usize)>,
}

/// The activity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// It waits for a number.
    Spare,
    /// It waits until its page shows it.
    Starts,
    /// A substitute that waits until it may restore its memory.
    Begins,
    /// A substitute that checks if its predecessor made any call.
    Replays,
    Calls,
    /// It has requested a global rollback.
    Requests,
    /// It waits for all PEs to roll back.
    RollsBack,
}

/// A process, which carries a PE once it has its number.
pub struct Process {
    pub alive: bool,
    pub node: u32,
    pub asleep: bool,
    pub pe: usize,
    pub incarnation: Incarnation,
    pub at: At,
    pub call: usize,
    /// The results of the accesses of the call.
    pub script: Vec<Rc<dyn Any>>,
    pub registers: [u64; REGISTERS],
    /// Its last time.
    pub time: u64,
    pub way: LogMode,
    pub replay: Replay,
    pub met: u64,
    pub joined: ViewNumber,
    /// The view in which its calls are carried out.
    pub works: ViewNumber,
    /// The memory of each PE that it maps, and the node of that.
    pub mapped: Vec<(u32, u32)>,
    pub mapped_in: ViewNumber,
    /// The view in which the handover began.
    pub handover: ViewNumber,
    /// True until the end of its replay is reported.
    pub owes_report: bool,
    /// True while it writes a replica of its log.
    pub replicates: bool,
    /// Meetings of a checkpoint that it has come to since it joined its view.
    pub meetings: usize,
    /// The links with far PEs, once it has its number.
    pub links: Option<FarLinks>,
    /// The process of each PE that it is connected to, and the oldest one that it listens to.
    pub connected: Vec<Option<Incarnation>>,
    pub oldest: Vec<Incarnation>,
    /// The time of its death, if what was on its way then is lost.
    pub cut: Option<u64>,
}

impl Process {
    /// Creates a process that no agent has started yet.
    pub fn new(n_pes: usize) -> Process {
        Process {
            alive: false,
            node: u32::MAX,
            asleep: true,
            pe: 0,
            incarnation: Incarnation::FIRST,
            at: At::Spare,
            call: 0,
            script: Vec::new(),
            registers: [0; REGISTERS],
            time: 0,
            way: LogMode::Plain,
            replay: Replay::default(),
            met: 0,
            joined: ViewNumber(0),
            works: ViewNumber(0),
            mapped: vec![(0, 0); n_pes],
            mapped_in: ViewNumber(0),
            handover: ViewNumber(0),
            owes_report: false,
            replicates: false,
            meetings: 0,
            links: None,
            connected: vec![None; n_pes],
            oldest: vec![Incarnation::FIRST; n_pes],
            cut: None,
        }
    }

    /// Maps the memory of the PEs that live in `view`.
    pub fn map(&mut self, view: &View) {
        for (mapped, member) in self.mapped.iter_mut().zip(&view.pes) {
            if member.state == raidshmem_core::view::State::Alive {
                *mapped = (member.memory, member.node);
            }
        }
        self.mapped_in = view.number;
    }

    /// Makes it a member of `view`.
    pub fn join(&mut self, view: &View) {
        (self.joined, self.works) = (view.number, view.number);
        self.map(view);
    }
}

impl Shared {
    /// Creates the state of a PE; if `is_far`, PEs of different nodes do not map each other.
    pub fn new(n_pes: usize, is_far: bool) -> Shared {
        let log = Log::new(n_pes, Some(0));
        let memory = Memory { phase: Some(Phase::Agreed(log.interval)), ..Memory::default() };
        let mirrors = vec![Log::new(n_pes, None); if is_far { n_pes } else { 0 }];
        Shared { memories: vec![memory], log, mirrors, saved: vec![([0; WORDS], 0)] }
    }

    pub fn memory(&mut self, number: u32) -> &mut Memory {
        let number = number as usize;
        if self.memories.len() <= number {
            self.memories.resize(number + 1, Memory::default());
        }
        &mut self.memories[number]
    }

    /// Discards a memory, and the log if it is there.
    pub fn wipe(&mut self, number: u32) {
        *self.memory(number) = Memory::default();
        let logs = self.mirrors.iter_mut().chain([&mut self.log]);
        logs.filter(|log| log.memory == Some(number)).for_each(|log| log.memory = None);
    }
}
