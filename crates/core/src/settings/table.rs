//! The rows of the settings table.
//!
//! Invariant: names are unique and grouped, `SHMEM_FT_*` first.
//!
//! Left out: the effects of a setting, which the module that reads the field implements.

use std::time::Duration;

use super::delta::{Delta, Track};
use super::entry::Setting;
use super::kind::{Value, ValueKind};
use super::units::{KIB, TIB, show_flag, show_rate, show_size, show_switch, show_time};
use super::values::{
    BackupMode, Bind, Collectives, Device, Fabric, Interval, Pages, Placement, Rollback,
    StoreLayout, Substitute, Trace,
};
use crate::inject;

/// Returns all settings, in the order of the documentation.
pub fn table() -> &'static [Setting] {
    TABLE
}

/// Defines the store function of a number, which narrows it to the field's type. The bounds of a
/// row fit every target type, so this cannot fail; tests store both bounds of each row.
macro_rules! number {
    ($draft:ident, $n:ident, $set:expr) => {
        |$draft, value| {
            if let Value::Number($n) = value {
                $set
            }
        }
    };
}

macro_rules! choice {
    ($field:ident, $all:expr) => {
        |draft, value| {
            if let Value::Choice(at) = value {
                draft.settings.$field = $all[at]
            }
        }
    };
}

macro_rules! switch {
    ($field:ident) => {
        |draft, value| {
            if let Value::On(on) = value {
                draft.settings.$field = on
            }
        }
    };
}

static TABLE: &[Setting] = &[
    Setting {
        name: "SHMEM_FT_BACKUP_MODE",
        kind: ValueKind::Choice(&BackupMode::NAMES),
        default: "none",
        doc: "How checkpoints are protected.",
        store: choice!(backup_mode, BackupMode::ALL),
        show: |s| Some(s.backup_mode.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_GROUP_SIZE",
        kind: ValueKind::Count { min: 2, max: 64 },
        default: "chosen from the number of PEs",
        doc: "PEs in a group that protect each other.",
        store: number!(draft, n, draft.settings.group_size = Some(n as usize)),
        show: |s| s.group_size.map(|n| n.to_string()),
    },
    Setting {
        name: "SHMEM_FT_PARITY",
        kind: ValueKind::Count { min: 1, max: 16 },
        default: "1, with rs 2",
        doc: "Parities of a group, which is how many losses it survives; only rs may have \
              other than 1.",
        store: number!(draft, n, draft.parity = Some(n as usize)),
        show: |s| Some(s.parity.to_string()),
    },
    Setting {
        name: "SHMEM_FT_SNAPSHOTS",
        kind: ValueKind::Count { min: 1, max: 2 },
        default: "1",
        doc: "Local copies of its live memory that a PE keeps, in turns. With 2 a checkpoint reads \
              memory once and not twice, and takes the live bytes once more; only raid4, raid5 and \
              rs may have 2.",
        store: number!(draft, n, draft.settings.snapshots = n as usize),
        show: |s| Some(s.snapshots.to_string()),
    },
    Setting {
        name: "SHMEM_FT_INTERVAL",
        kind: ValueKind::Interval { max: 86_400_000 },
        default: "0",
        doc: "Time from one checkpoint to the next: a shmem_checkpoint_all before that reports \
              losses and saves nothing; auto works it out from what a checkpoint costs and from \
              the losses.",
        store: |draft, value| {
            draft.settings.interval = match value {
                Value::Number(n) => Interval::After(Duration::from_millis(n)),
                _ => Interval::Auto,
            }
        },
        show: |s| Some(s.interval.show()),
    },
    Setting {
        name: "SHMEM_FT_MTBF",
        kind: ValueKind::Seconds { min: 1000, max: 315_360_000_000 },
        default: "what is seen",
        doc: "Time between two losses of PEs or nodes of the job, on average, for \
              SHMEM_FT_INTERVAL=auto.",
        store: number!(draft, n, draft.settings.mtbf = Some(Duration::from_millis(n))),
        show: |s| s.mtbf.map(show_time),
    },
    Setting {
        name: "SHMEM_FT_SUBSTITUTE",
        kind: ValueKind::Choice(&Substitute::NAMES),
        default: "spawn",
        doc: "What takes the place of a dead PE: a sleeping spare or else a new process (spawn), \
              only a spare (spare), nothing (shrink, which needs SHMEM_FT_ROLLBACK=none).",
        store: choice!(substitute, Substitute::ALL),
        show: |s| Some(s.substitute.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_ROLLBACK",
        kind: ValueKind::Choice(&Rollback::NAMES),
        default: "global",
        doc: "Who goes back after a loss: all (global), nobody (none, only with shrink), or the \
              lost PE alone where logs allow it (local, only with raid4, raid5 or rs).",
        store: choice!(rollback, Rollback::ALL),
        show: |s| Some(s.rollback.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_LOG_LIMIT",
        kind: ValueKind::Size { min: 1024 * KIB, max: TIB },
        default: "a quarter of the symmetric heap, 1M at least",
        doc: "Most bytes of the log that a PE keeps with SHMEM_FT_ROLLBACK=local, from one \
              checkpoint to the next. Beyond it a loss takes all PEs back.",
        store: number!(draft, n, draft.settings.log_limit = Some(n)),
        show: |s| s.log_limit.map(show_size),
    },
    Setting {
        name: "SHMEM_FT_PLACEMENT",
        kind: ValueKind::Choice(&Placement::NAMES),
        default: "spread",
        doc: "Groups are spread over nodes and other failure domains as well as can be, or \
              (strict) the job is refused if they would not survive the loss of any one.",
        store: choice!(placement, [Placement::Spread, Placement::Strict]),
        show: |s| Some(s.placement.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_DOMAINS",
        kind: ValueKind::File,
        default: "none",
        doc: "Failure domains above the nodes: which hosts share a rack, a switch or a power feed.",
        store: |draft, value| {
            if let Value::File(path) = value {
                draft.settings.domains = Some(path)
            }
        },
        show: |s| s.domains.clone(),
    },
    Setting {
        name: "SHMEM_FT_BIND",
        kind: ValueKind::Choice(&Bind::NAMES),
        default: "auto",
        doc: "What PEs are bound to: auto gives each its share of the cores and the memory near \
              them, if there are enough threads for all; core gives each one core, or one thread.",
        store: choice!(bind, [Bind::Auto, Bind::Core, Bind::None]),
        show: |s| Some(s.bind.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_AFFINITY",
        kind: ValueKind::Switch,
        default: "1",
        doc: "Threads of a substitute get the processors that those of the lost PE had at the last \
              checkpoint, matched by the order of their creation; 0 leaves them where they start.",
        store: switch!(affinity),
        show: |s| show_switch(s.affinity),
    },
    Setting {
        name: "SHMEM_FT_PAGES",
        kind: ValueKind::Choice(&Pages::NAMES),
        default: "auto",
        doc: "Pages of the memory of PEs: auto has huge ones for heaps of 32 MiB and more and for \
              what checkpoints keep of them, where they can be had; oshinfo says whether.",
        store: choice!(pages, [Pages::Auto, Pages::Small]),
        show: |s| Some(s.pages.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_DELTA",
        kind: ValueKind::Choice(&Delta::NAMES),
        default: "auto",
        doc: "Whether a checkpoint looks for what changed since the last and leaves the rest as it \
              is; auto does so while less than a quarter of the blocks (64 KiB) change.",
        store: choice!(delta, [Delta::Auto, Delta::On, Delta::Off]),
        show: |s| Some(s.delta.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_TRACK",
        kind: ValueKind::Choice(&Track::NAMES),
        default: "auto",
        doc: "How it finds what changed: from the kernel, which notes the pages that are written \
              (pages), or by reading all (digests); auto is pages while less than an eighth of the \
              blocks change, and where pages are huge while that saves more than a program may \
              lose by small ones. Say digests where devices write to symmetric memory.",
        store: choice!(track, [Track::Auto, Track::Pages, Track::Digests]),
        show: |s| Some(s.track.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_THREADS",
        kind: ValueKind::Share { max: 64 },
        default: "auto",
        doc: "Threads with which each PE makes checkpoints and recovers; auto is one for each \
              processor that the PE need not share, 8 at most.",
        store: number!(draft, n, draft.settings.threads = n as usize),
        show: |s| Some(if s.threads == 0 { "auto".to_owned() } else { s.threads.to_string() }),
    },
    Setting {
        name: "SHMEM_FT_FABRIC",
        kind: ValueKind::Choice(&Fabric::NAMES),
        default: "auto",
        doc: "What carries data between PEs on different nodes; auto is shm where all nodes are \
              on one machine. oshinfo engines says what there is.",
        store: choice!(fabric, Fabric::ALL),
        show: |s| Some(s.fabric.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_DEVICE",
        kind: ValueKind::Device,
        default: "the first with an active port",
        doc: "The device for RDMA and its port, on every node; for the fabric verbs.",
        store: |draft, value| {
            if let Value::Device(device) = value {
                draft.settings.device = Some(device)
            }
        },
        show: |s| s.device.as_ref().map(Device::to_string),
    },
    Setting {
        name: "SHMEM_FT_COLLECTIVES",
        kind: ValueKind::Choice(&Collectives::NAMES),
        default: "auto",
        doc: "How PEs act together: each reads from all (direct), the leaders of nodes pass on \
              what is for all (nodes), or all PEs do, in the fewest messages (doubling) or bytes \
              (halving); auto chooses by size, and is direct where PEs share memory.",
        store: choice!(collectives, Collectives::ALL),
        show: |s| Some(s.collectives.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_ADOPT",
        kind: ValueKind::Switch,
        default: "1",
        doc: "A substitute takes over the memory that a dead process left behind where its \
              checksums hold; 0 always rebuilds it.",
        store: switch!(adopt),
        show: |s| show_switch(s.adopt),
    },
    Setting {
        name: "SHMEM_FT_MAX_RESTARTS",
        kind: ValueKind::Count { min: 0, max: 1_000_000 },
        default: "3",
        doc: "Deaths of one PE without progress of the program, before the job ends.",
        store: number!(draft, n, draft.settings.max_restarts = n as u32),
        show: |s| Some(s.max_restarts.to_string()),
    },
    Setting {
        name: "SHMEM_FT_MEMORY_LIMIT",
        kind: ValueKind::Size { min: 64 * KIB, max: 64 * TIB },
        default: "what is free on each machine",
        doc: "Most bytes that the checkpoints may take on each machine, parity and copies of all \
              its PEs together. A checkpoint that needs more is refused.",
        store: number!(draft, n, draft.settings.memory_limit = Some(n)),
        show: |s| s.memory_limit.map(show_size),
    },
    Setting {
        name: "SHMEM_FT_NODE_TIMEOUT",
        kind: ValueKind::Seconds { min: 100, max: 3_600_000 },
        default: "10",
        doc: "A node that has not heard the launcher for this time ends itself; it is declared \
              lost within 1.5 times this.",
        store: number!(draft, n, draft.settings.node_timeout = Duration::from_millis(n)),
        show: |s| Some(show_time(s.node_timeout)),
    },
    Setting {
        name: "SHMEM_FT_PE_TIMEOUT",
        kind: ValueKind::Seconds { min: 100, max: 86_400_000 },
        default: "none",
        doc: "A PE that is stopped (by SIGSTOP, for example) for longer than this is killed.",
        store: number!(draft, n, draft.settings.pe_timeout = Some(Duration::from_millis(n))),
        show: |s| s.pe_timeout.map(show_time),
    },
    Setting {
        name: "SHMEM_FT_STALL",
        kind: ValueKind::Seconds { min: 0, max: 86_400_000 },
        default: "60",
        doc: "When PEs wait in one call for longer than this, a line says who waits in which call, \
              and who does not; 0 is off. The job ends only if such a wait can never end.",
        store: number!(draft, n, draft.settings.stall = Duration::from_millis(n)),
        show: |s| Some(show_time(s.stall)),
    },
    Setting {
        name: "SHMEM_FT_TRACE",
        kind: ValueKind::Choice(&Trace::NAMES),
        default: "info",
        doc: "Which events each PE keeps, the last 511 of them, for `oshrun --dump`: info are \
              views and steps of checkpoints and recoveries, debug also every call that waits for \
              long.",
        store: choice!(trace, Trace::ALL),
        show: |s| Some(s.trace.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_CHECKSUM",
        kind: ValueKind::Switch,
        default: "1",
        doc: "Every block of a checkpoint carries a checksum and is used only if it holds; 0 is \
              to measure what that costs: damage then goes unnoticed and comes back as data.",
        store: switch!(checksum),
        show: |s| show_switch(s.checksum),
    },
    Setting {
        name: "SHMEM_FT_PLAN",
        kind: ValueKind::File,
        default: "none",
        doc: "What checkpoints leave out, by the place of the call: a plan that oshadvise -o wrote \
              for this very build of the program.",
        store: |draft, value| {
            if let Value::File(path) = value {
                draft.settings.plan = Some(path)
            }
        },
        show: |s| s.plan.clone(),
    },
    Setting {
        name: "SHMEM_FT_AUDIT",
        kind: ValueKind::Switch,
        default: "0",
        doc: "After a restart, memory that the plan left out is filled with bytes of a5, so that a \
              program that reads it goes wrong at once.",
        store: switch!(audit),
        show: |s| show_switch(s.audit),
    },
    Setting {
        name: "SHMEM_FT_SCRUB",
        kind: ValueKind::Rate { max: TIB },
        default: "16M",
        doc: "How fast each PE looks over its part of the last checkpoint while the program runs; \
              damage is told and repaired.",
        store: number!(draft, n, draft.settings.scrub = n),
        show: |s| Some(show_rate(s.scrub)),
    },
    Setting {
        name: "SHMEM_FT_STORE",
        kind: ValueKind::Folder,
        default: "none",
        doc: "Folder to which checkpoints are written; oshrun --resume begins from there.",
        store: |draft, value| {
            if let Value::File(path) = value {
                draft.settings.store = Some(path)
            }
        },
        show: |s| s.store.clone(),
    },
    Setting {
        name: "SHMEM_FT_STORE_EVERY",
        kind: ValueKind::Every { max: 1_000_000_000 },
        default: "10",
        doc: "Which checkpoints are written there: every tenth, or (10s) the first that is made \
              after 10 seconds. One that is due while another is written is left out.",
        store: |draft, value| {
            if let Value::Every(every) = value {
                draft.settings.store_every = every
            }
        },
        show: |s| Some(s.store_every.show()),
    },
    Setting {
        name: "SHMEM_FT_STORE_KEEP",
        kind: ValueKind::Count { min: 1, max: 1_000_000 },
        default: "2",
        doc: "Checkpoints that stay there: older ones are deleted after one was written.",
        store: number!(draft, n, draft.settings.store_keep = n as usize),
        show: |s| Some(s.store_keep.to_string()),
    },
    Setting {
        name: "SHMEM_FT_STORE_LAYOUT",
        kind: ValueKind::Choice(&StoreLayout::NAMES),
        default: "shared",
        doc: "shared: all nodes see that folder. local: each node has its own disk there; parity \
              is written too, so that a job resumes though nodes lost their disks.",
        store: choice!(store_layout, [StoreLayout::Shared, StoreLayout::Local]),
        show: |s| Some(s.store_layout.name().to_owned()),
    },
    Setting {
        name: "SHMEM_FT_STORE_MEMORY",
        kind: ValueKind::Size { min: 64 * KIB, max: 64 * TIB },
        default: "256M",
        doc: "Memory of each node for what the next checkpoint overwrites before it is on disk; \
              where that is more, it does not come there.",
        store: number!(draft, n, draft.settings.store_memory = n),
        show: |s| Some(show_size(s.store_memory)),
    },
    Setting {
        name: "SHMEM_FT_STORE_RATE",
        kind: ValueKind::Rate { max: TIB },
        default: "off",
        doc: "Bytes a second that each node writes there at most; off: as fast as the disk takes.",
        store: number!(draft, n, draft.settings.store_rate = n),
        show: |s| Some(show_rate(s.store_rate)),
    },
    Setting {
        name: "SHMEM_FT_STORE_COMPRESS",
        kind: ValueKind::Count { min: 0, max: 19 },
        default: "0",
        doc: "Level of zstd at which each block of them is compressed, from 1 (fast) to 19 \
              (small); 0 writes them as they are.",
        store: number!(draft, n, draft.settings.store_compress = n as u32),
        show: |s| Some(s.store_compress.to_string()),
    },
    Setting {
        name: "SHMEM_FT_INJECT",
        kind: ValueKind::Rules,
        default: "none",
        doc: "Faults to inject: which PE or node dies, or which PE stops, at which step of \
              which checkpoint.",
        store: |draft, value| {
            if let Value::Rules(rules) = value {
                draft.settings.inject = rules
            }
        },
        show: |s| (!s.inject.is_empty()).then(|| inject::list(&s.inject)),
    },
    Setting {
        name: "SHMEM_FT_REPORT",
        kind: ValueKind::Switch,
        default: "0",
        doc: "A line for every checkpoint, each step of a recovery and the memory of each PE, as \
              oshrun -v prints.",
        store: switch!(report),
        show: |s| show_switch(s.report),
    },
    Setting {
        name: "SHMEM_FT_SINGLETON",
        kind: ValueKind::Switch,
        default: "0",
        doc: "A task that srun, mpirun or flux starts without oshrun is a job of one PE, not an \
              error, also where there are several tasks.",
        store: switch!(singleton),
        show: |s| show_switch(s.singleton),
    },
    Setting {
        name: "SHMEM_SYMMETRIC_SIZE",
        kind: ValueKind::AtLeast { least: 64 * KIB, max: 64 * TIB },
        default: "chosen by the library",
        doc: "Size of the symmetric heap of each PE.",
        store: number!(draft, n, draft.settings.symmetric_size = Some(n)),
        show: |s| s.symmetric_size.map(show_size),
    },
    Setting {
        name: "SHMEM_INFO",
        kind: ValueKind::Flag,
        default: "off",
        doc: "Print the settings at start-up.",
        store: switch!(info),
        show: |s| show_flag(s.info),
    },
    Setting {
        name: "SHMEM_VERSION",
        kind: ValueKind::Flag,
        default: "off",
        doc: "Print the library's version at start-up.",
        store: switch!(version),
        show: |s| show_flag(s.version),
    },
    Setting {
        name: "SHMEM_DEBUG",
        kind: ValueKind::Flag,
        default: "off",
        doc: "Print debugging messages.",
        store: switch!(debug),
        show: |s| show_flag(s.debug),
    },
    Setting {
        name: "SHMEM_CHECK",
        kind: ValueKind::Switch,
        default: "1",
        doc: "Check the arguments of every call, and say what is wrong with them.",
        store: switch!(check),
        show: |s| show_switch(s.check),
    },
];
