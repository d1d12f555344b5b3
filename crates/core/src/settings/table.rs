//! The rows of the settings table, one for each setting.
//!
//! A row has the name of the variable, the field with its type and default, the default in words if
//! it is not a fixed value, the kind of value with its bounds, a description, and a reason to
//! change it. The field of [`Settings`] and the [`Setting`] are made from it.
//!
//! Invariant: names are unique and grouped, `SHMEM_FT_*` first.
//!
//! Left out: the effects of a setting, which the module that reads the field implements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kind::{Value, ValueKind};
use super::stored::Stored;
use super::units::{KIB, TIB};
use super::values::{
    Background, BackupMode, Bind, Collectives, Delta, Device, Every, Fabric, Interval, Pages,
    Placement, Provider, Rollback, StoreLayout, Substitute, Trace, Track,
};
use crate::inject::InjectedFault;

/// One setting: a row of the table.
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// The kind and bounds of its value.
    pub kind: ValueKind,
    /// A short description.
    pub doc: &'static str,
    /// The reason to change it, in one line.
    pub reason: &'static str,
    /// The default in words, if it is not a fixed value.
    described: Option<&'static str>,
    store: fn(&mut Settings, Value),
    show: fn(&Settings, &ValueKind) -> Option<String>,
}

impl Setting {
    /// Returns the allowed values, as documentation and error messages print them.
    pub fn allowed(&self) -> String {
        self.kind.allowed()
    }

    /// Returns the default as documentation prints it.
    pub fn default(&self) -> String {
        let fixed = || self.show(&Settings::default());
        self.described.map(str::to_owned).or_else(fixed).unwrap_or_default()
    }

    /// Returns the value in force as the environment would spell it; `None` if it is unset.
    pub fn show(&self, settings: &Settings) -> Option<String> {
        (self.show)(settings, &self.kind)
    }

    /// Stores a value that [`ValueKind::parse`] of this setting returned.
    pub(super) fn store(&self, settings: &mut Settings, value: Value) {
        (self.store)(settings, value);
    }
}

/// Returns all settings, in the order of the documentation.
pub fn table() -> &'static [Setting] {
    TABLE
}

macro_rules! settings {
    ($(
        $(#[$note:meta])*
        $name:ident $field:ident: $type:ty = $default:expr $(, $described:literal)?;
        $kind:expr, $doc:literal, $reason:literal;
    )*) => {
        /// All settings of one run, parsed and within bounds. `default()` is the empty environment.
        /// As a message they are what [`Settings::to_env`] returns.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "Vec<(String, String)>", into = "Vec<(String, String)>")]
        pub struct Settings {
            $(
                #[doc = concat!("`", stringify!($name), "`: ", $doc)]
                $(#[$note])*
                pub $field: $type,
            )*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($field: $default,)* }
            }
        }

        static TABLE: &[Setting] = &[$(
            Setting {
                name: stringify!($name),
                kind: $kind,
                doc: $doc,
                reason: $reason,
                described: [$(Some($described),)? None][0],
                store: |settings, value| {
                    if let Some(value) = Stored::of(value) {
                        settings.$field = value;
                    }
                },
                show: |settings, kind| Stored::show(&settings.$field, kind),
            },
        )*];
    };
}

settings! {
    SHMEM_FT_BACKUP_MODE backup_mode: BackupMode = BackupMode::None;
        ValueKind::Choice(BackupMode::NAMES),
        "Protection of checkpoints.",
        "to survive losses at all, at the memory cost of a mode";
    SHMEM_FT_GROUP_SIZE group_size: Option<usize> = None, "chosen from the number of PEs";
        ValueKind::Count { min: 2, max: 64 },
        "PEs in a group that protect each other.",
        "smaller groups survive more losses and take more memory";
    SHMEM_FT_PARITY parity: usize = 1, "1, with rs 2";
        ValueKind::Count { min: 1, max: 16 },
        "Parities per group: the number of losses that a group survives. Only rs accepts other \
         values than 1.",
        "to survive that many losses in a group at once";
    SHMEM_FT_SNAPSHOTS snapshots: usize = 1;
        ValueKind::Count { min: 1, max: 2 },
        "Local copies of its live memory that a PE keeps, used in turn. With 2, a checkpoint reads \
         memory once instead of twice, but memory is needed for one more copy. Only raid4, raid5 \
         and rs accept 2.",
        "to trade spare memory for faster checkpoints";
    SHMEM_FT_BACKGROUND background: Background = Background::Off;
        ValueKind::Choice(Background::NAMES),
        "With on, a checkpoint call returns once all PEs have copied their memory, and parity is \
         computed while the program runs; until then a loss rolls back to the checkpoint before. \
         Needs SHMEM_FT_SNAPSHOTS=2. auto does that, given two snapshots, between hosts.",
        "checkpoints wait long for a network, and memory is plentiful";
    SHMEM_FT_INTERVAL interval: Interval = Interval::EACH_CALL;
        ValueKind::Interval { max: 86_400_000 },
        "Shortest time between two checkpoints. A shmem_checkpoint_all before that reports losses \
         but saves nothing. auto computes the time from the cost of a checkpoint and the observed \
         losses.",
        "the program calls the checkpoint more often than pays off";
    SHMEM_FT_MTBF mtbf: Option<Duration> = None, "from the observed losses";
        ValueKind::Seconds { min: 1000, max: 315_360_000_000 },
        "Mean time between losses of PEs or nodes of the job, for SHMEM_FT_INTERVAL=auto.",
        "the failure rate of the machine is known";
    SHMEM_FT_SUBSTITUTE substitute: Substitute = Substitute::Spawn;
        ValueKind::Choice(Substitute::NAMES),
        "Replacement of a dead PE: a sleeping spare or else a new process (spawn), only a spare \
         (spare), or nothing (shrink, which needs SHMEM_FT_ROLLBACK=none).",
        "no node has memory for another process, or no PE should be replaced";
    SHMEM_FT_ROLLBACK rollback: Rollback = Rollback::Global;
        ValueKind::Choice(Rollback::NAMES),
        "PEs that roll back after a loss: all (global), none of them (none, only with shrink), or \
         only the lost PE if logs allow it (local, only with raid4, raid5 or rs).",
        "the program repairs itself, or surviving PEs must not compute again";
    SHMEM_FT_LOG_LIMIT log_limit: Option<u64>
        = None, "a quarter of the symmetric heap, 1M at least";
        ValueKind::Size { min: 1024 * KIB, max: TIB },
        "Largest log that a PE keeps between two checkpoints with SHMEM_FT_ROLLBACK=local. Beyond \
         it, a loss rolls back all PEs.",
        "a line reports a full log, or memory is short";
    SHMEM_FT_MAP map: bool = true;
        ValueKind::Switch,
        "PEs of a host map each other's memory. With 0 and SHMEM_FT_ROLLBACK=local, in a job on \
         several hosts, PEs exchange messages even there, and each has a replica of its log on \
         another host: the loss of a host rolls back only its PEs.",
        "hosts with several PEs are lost, and surviving PEs must not compute again";
    SHMEM_FT_PLACEMENT placement: Placement = Placement::Spread;
        ValueKind::Choice(Placement::NAMES),
        "spread: parity groups span nodes and other failure domains as far as possible. strict: \
         the job is refused unless it survives the loss of any one of them.",
        "a job that one lost domain can end should not start";
    SHMEM_FT_DOMAINS domains: Option<String> = None, "none";
        ValueKind::File,
        "Failure domains above the nodes: which hosts share a rack, a switch or a power feed.",
        "nodes share racks, switches or power";
    SHMEM_FT_BIND bind: Bind = Bind::Auto;
        ValueKind::Choice(Bind::NAMES),
        "CPU binding of PEs: auto gives each an equal share of the cores of its machine, and \
         memory close to them, if there are enough hardware threads for all; core gives each one \
         core, or one hardware thread.",
        "another program shares the machine, or binds the processes itself";
    SHMEM_FT_AFFINITY affinity: bool = true;
        ValueKind::Switch,
        "Threads of a substitute are bound to the processors that the lost PE's threads had at the \
         last checkpoint, matched by order of creation, and memory that is made again lies on the \
         NUMA nodes where it was; 0 leaves both where they begin.",
        "the program places its threads and pages itself after a restart";
    SHMEM_FT_PAGES pages: Pages = Pages::Auto;
        ValueKind::Choice(Pages::NAMES),
        "Page size of PE memory: auto uses huge pages, if available, for heaps of 32 MiB and more \
         and for their checkpoints; oshinfo reports if they are available.",
        "a program touches little of a large heap";
    SHMEM_FT_DELTA delta: Delta = Delta::Auto;
        ValueKind::Choice(Delta::NAMES),
        "Incremental checkpoints, which update only the blocks (64 KiB) that changed since the \
         last one; auto uses them while less than a quarter of the blocks change.",
        "the automatic choice does not suit a program, or for a measurement";
    SHMEM_FT_TRACK track: Track = Track::Auto;
        ValueKind::Choice(Track::NAMES),
        "Detection of changed blocks: the kernel tracks written pages (pages), or all memory is \
         read (digests). auto uses pages while less than an eighth of the blocks change and, with \
         huge pages, while that saves more than small pages may cost the program. Use digests if \
         devices write to symmetric memory.",
        "devices write to symmetric memory, or for a measurement";
    /// 0 is `auto`.
    SHMEM_FT_THREADS threads: usize = 0;
        ValueKind::Share { max: 64 },
        "Threads that each PE uses for checkpoints and recovery; auto is one per processor that \
         the PE does not share, at most 8.",
        "the program's own threads need the processors";
    SHMEM_FT_FABRIC fabric: Fabric = Fabric::Auto;
        ValueKind::Choice(Fabric::NAMES),
        "Transport between PEs on different nodes; auto is shm if all nodes are on one machine. \
         oshinfo engines lists what is available.",
        "the automatic choice picks the wrong network";
    SHMEM_FT_DEVICE device: Option<Device> = None, "the first with an active port";
        ValueKind::Device,
        "RDMA device and port on every node, for the fabric verbs.",
        "a node has several devices for RDMA";
    SHMEM_FT_PROVIDER provider: Option<Provider> = None, "the best one";
        ValueKind::Provider,
        "Provider of libfabric on every node, for the fabric ofi.",
        "a node has several networks, or the automatic choice is slower";
    SHMEM_FT_COLLECTIVES collectives: Collectives = Collectives::Auto;
        ValueKind::Choice(Collectives::NAMES),
        "Algorithm of collectives: every PE reads from all (direct), node leaders relay (nodes), \
         or all PEs exchange with the fewest messages (doubling) or bytes (halving). auto chooses \
         by size, and is direct where PEs share memory.",
        "the automatic choice is slower on a machine, or for a measurement";
    SHMEM_FT_ADOPT adopt: bool = true;
        ValueKind::Switch,
        "A substitute adopts the memory that a dead process left behind if its checksums match; 0 \
         always rebuilds it.",
        "memory that a crashed process left behind should not be trusted";
    SHMEM_FT_MAX_RESTARTS max_restarts: u32 = 3;
        ValueKind::Count { min: 0, max: 1_000_000 },
        "Deaths of one PE, or restarts from disk, without progress before the job ends.",
        "deaths are frequent although the program is correct, or always its fault";
    SHMEM_FT_MEMORY_LIMIT memory_limit: Option<u64> = None, "what is free on each machine";
        ValueKind::Size { min: 64 * KIB, max: 64 * TIB },
        "Largest memory for checkpoints on each machine: parity and copies of all its PEs \
         together. A checkpoint that needs more is refused.",
        "other programs will need the machine's memory later";
    SHMEM_FT_NODE_TIMEOUT node_timeout: Duration = Duration::from_secs(10);
        ValueKind::Seconds { min: 100, max: 3_600_000 },
        "A node that has not heard from the launcher for this long ends itself; it is declared \
         lost within 1.5 times this.",
        "the network is slower, or losses must be detected sooner";
    SHMEM_FT_PE_TIMEOUT pe_timeout: Option<Duration> = None, "none";
        ValueKind::Seconds { min: 100, max: 86_400_000 },
        "A PE that is stopped (by SIGSTOP, for example) for longer than this is killed.",
        "a stopped process should count as lost";
    /// Zero: no line.
    SHMEM_FT_STALL stall: Duration = Duration::from_secs(60);
        ValueKind::Seconds { min: 0, max: 86_400_000 },
        "When PEs wait in one call for longer than this, a line names the PEs that wait, their \
         calls, and the PEs that do not wait; 0 is off. The job ends only if such a wait can never \
         end.",
        "long waits are normal in a program, or must be reported sooner";
    SHMEM_FT_TRACE trace: Trace = Trace::Info;
        ValueKind::Choice(Trace::NAMES),
        "Events of which each PE keeps the last 511 for `oshrun --dump`: info covers views and the \
         steps of checkpoints and recoveries, debug also every long wait.",
        "to find out why a job hangs";
    SHMEM_FT_CHECKSUM checksum: bool = true;
        ValueKind::Switch,
        "Every block of a checkpoint carries a checksum and is used only if it matches. 0 is for \
         measuring the cost: damage then goes unnoticed and is restored as data.",
        "to measure what checksums cost";
    SHMEM_FT_PLAN plan: Option<String> = None, "none";
        ValueKind::File,
        "Plan of the memory that each checkpoint call leaves out, as oshadvise -o writes it for \
         this exact build of the program.",
        "to make checkpoints smaller";
    SHMEM_FT_AUDIT audit: bool = false;
        ValueKind::Switch,
        "After a restart, memory that the plan left out is filled with bytes 0xa5, so that a \
         program that reads it fails at once.",
        "to test a plan before it is trusted";
    /// 0 is `off`.
    SHMEM_FT_SCRUB scrub: u64 = 64 << 20;
        ValueKind::Rate { max: TIB },
        "Rate at which the PEs of a node together scrub their parts of the last checkpoint while \
         the program runs; damage is reported and repaired.",
        "memory bandwidth is scarce, or the memory is unreliable";
    SHMEM_FT_STORE store: Option<String> = None, "none";
        ValueKind::Folder,
        "Folder for checkpoints on disk; oshrun --resume starts from there.",
        "to survive the loss of the whole job, or to continue it later";
    SHMEM_FT_STORE_EVERY store_every: Every = Every::Checkpoints(10);
        ValueKind::Every { max: 1_000_000_000 },
        "How often a checkpoint is written there: 10 means every tenth, 10s the first one after 10 \
         seconds. One that is due while another is being written is skipped.",
        "the disk is too slow for so many checkpoints, or fast enough for more";
    SHMEM_FT_STORE_KEEP store_keep: usize = 2;
        ValueKind::Count { min: 1, max: 1_000_000 },
        "Number of checkpoints kept there; older ones are deleted after each write.",
        "to save disk space, or to keep more sets to resume from";
    SHMEM_FT_STORE_LAYOUT store_layout: StoreLayout = StoreLayout::Shared;
        ValueKind::Choice(StoreLayout::NAMES),
        "shared: all nodes see that folder. local: it is on a disk of each node, and parity is \
         written too, so that a job can resume after nodes lost their disks.",
        "nodes have disks of their own, and share no file system";
    SHMEM_FT_STORE_MEMORY store_memory: u64 = 256 << 20;
        ValueKind::Size { min: 64 * KIB, max: 64 * TIB },
        "Memory of each node for data that the next checkpoint overwrites before it is on disk. A \
         checkpoint that needs more is not written.",
        "the disk is slow and checkpoints are large, or memory is short";
    /// 0 is `off`.
    SHMEM_FT_STORE_RATE store_rate: u64 = 0;
        ValueKind::Rate { max: TIB },
        "Largest write rate of each node, in bytes per second; off: as fast as the disk is.",
        "other programs need the disk or the network to it";
    SHMEM_FT_STORE_COMPRESS store_compress: u32 = 0;
        ValueKind::Count { min: 0, max: 19 },
        "zstd level for each block, from 1 (fast) to 19 (small); 0 writes blocks uncompressed.",
        "the disk is small or slow, and nodes have processors to spare";
    SHMEM_FT_STORE_INCREMENTAL store_incremental: bool = true;
        ValueKind::Switch,
        "A block that has not changed since the previous checkpoint was written there is not \
         written again: the new files refer to the older ones. Of eight checkpoints at least one \
         is whole. 0: each is.",
        "to copy, move or delete sets by hand, each without the others";
    SHMEM_FT_INJECT inject: Vec<InjectedFault> = Vec::new(), "none";
        ValueKind::Rules,
        "Faults to inject: which PE or node dies, or which PE stops, at which step of which \
         checkpoint.",
        "to test that a program survives";
    SHMEM_FT_REPORT report: bool = false;
        ValueKind::Switch,
        "A line for every checkpoint, each step of a recovery and the memory of each PE, as oshrun \
         -v prints.",
        "to see what each checkpoint and each recovery costs";
    SHMEM_FT_SINGLETON singleton: bool = false;
        ValueKind::Switch,
        "With 1, each task that srun, mpirun or flux starts without oshrun is a job of one PE. \
         With 0, several such tasks are an error.",
        "each of several tasks should be a job of its own";
    SHMEM_SYMMETRIC_SIZE symmetric_size: Option<u64> = None, "chosen by the library";
        ValueKind::AtLeast { least: 64 * KIB, max: 64 * TIB },
        "Size of the symmetric heap of each PE.",
        "the program needs another size (OpenSHMEM)";
    SHMEM_INFO info: bool = false, "off";
        ValueKind::Flag,
        "Print the settings at start-up.",
        "to see the settings in force (OpenSHMEM)";
    SHMEM_VERSION version: bool = false, "off";
        ValueKind::Flag,
        "Print the library's version at start-up.",
        "to see which library a program runs with (OpenSHMEM)";
    SHMEM_DEBUG debug: bool = false, "off";
        ValueKind::Flag,
        "Print debugging messages.",
        "to follow what the library does (OpenSHMEM)";
    SHMEM_CHECK check: bool = true;
        ValueKind::Switch,
        "Check the arguments of every call, and report what is wrong.",
        "the checks cost too much in a program known to be correct";

}
