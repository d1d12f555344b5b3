//! All settings, with their defaults.

use std::time::Duration;

use super::delta::{Delta, Track};
use super::values::{
    BackupMode, Bind, Collectives, Device, Every, Fabric, Interval, Pages, Placement, Rollback,
    StoreLayout, Substitute, Trace,
};
use crate::inject::InjectedFault;

/// All settings of one run, parsed and within bounds. `default()` is the empty environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `SHMEM_FT_BACKUP_MODE`.
    pub backup_mode: BackupMode,
    /// `SHMEM_FT_GROUP_SIZE`: PEs in a parity group; `None`: chosen from the number of PEs.
    pub group_size: Option<usize>,
    /// `SHMEM_FT_PARITY`: parities of a group, that is, losses it survives; 1 unless mode `rs`.
    pub parity: usize,
    /// `SHMEM_FT_SNAPSHOTS`: local copies that a PE keeps, used in turn; 1 except in modes with
    /// parity.
    pub snapshots: usize,
    /// `SHMEM_FT_INTERVAL`: time from one checkpoint to the next.
    pub interval: Interval,
    /// `SHMEM_FT_MTBF`: mean time between two losses; `None`: estimated from losses seen.
    pub mtbf: Option<Duration>,
    /// `SHMEM_FT_SUBSTITUTE`.
    pub substitute: Substitute,
    /// `SHMEM_FT_ROLLBACK`.
    pub rollback: Rollback,
    /// `SHMEM_FT_LOG_LIMIT`: maximum bytes of a PE's log; `None`: a quarter of its heap.
    pub log_limit: Option<u64>,
    /// `SHMEM_FT_PLACEMENT`.
    pub placement: Placement,
    /// `SHMEM_FT_DOMAINS`: path of a file of failure domains.
    pub domains: Option<String>,
    /// `SHMEM_FT_PLAN`: path of a plan that lists memory to leave out of checkpoints.
    pub plan: Option<String>,
    /// `SHMEM_FT_AUDIT`: overwrite the omitted memory after a restart.
    pub audit: bool,
    /// `SHMEM_FT_BIND`.
    pub bind: Bind,
    /// `SHMEM_FT_AFFINITY`: threads of a substitute get their masks back.
    pub affinity: bool,
    /// `SHMEM_FT_PAGES`.
    pub pages: Pages,
    /// `SHMEM_FT_DELTA`: incremental checkpoints.
    pub delta: Delta,
    /// `SHMEM_FT_TRACK`: the method of finding changed memory.
    pub track: Track,
    /// `SHMEM_FT_THREADS`: threads of a PE in a checkpoint or recovery; 0: as many as it has
    /// processors of its own.
    pub threads: usize,
    /// `SHMEM_FT_FABRIC`.
    pub fabric: Fabric,
    /// `SHMEM_FT_DEVICE`: the device for RDMA; `None`: the first with an active port.
    pub device: Option<Device>,
    /// `SHMEM_FT_COLLECTIVES`.
    pub collectives: Collectives,
    /// `SHMEM_FT_ADOPT`: a substitute may adopt the memory that a dead process left.
    pub adopt: bool,
    /// `SHMEM_FT_MAX_RESTARTS`: deaths of one PE between two checkpoints before the job ends.
    pub max_restarts: u32,
    /// `SHMEM_FT_MEMORY_LIMIT`: maximum bytes of all checkpoints on a machine; `None`: free memory.
    pub memory_limit: Option<u64>,
    /// `SHMEM_FT_NODE_TIMEOUT`: a node that the launcher does not answer for this time ends itself.
    pub node_timeout: Duration,
    /// `SHMEM_FT_PE_TIMEOUT`: a stopped PE is killed after this; `None`: never.
    pub pe_timeout: Option<Duration>,
    /// `SHMEM_FT_STALL`: a wait in one call that lasts longer is reported; zero: never.
    pub stall: Duration,
    /// `SHMEM_FT_TRACE`: events that a PE keeps for `oshrun --dump`.
    pub trace: Trace,
    /// `SHMEM_FT_CHECKSUM`: blocks of a checkpoint carry checksums.
    pub checksum: bool,
    /// `SHMEM_FT_SCRUB`: bytes per second at which a PE scrubs its checkpoint; 0: off.
    pub scrub: u64,
    /// `SHMEM_FT_STORE`: folder of checkpoints on disk; `None`: no checkpoints on disk.
    pub store: Option<String>,
    /// `SHMEM_FT_STORE_EVERY`: how often a checkpoint is written there.
    pub store_every: Every,
    /// `SHMEM_FT_STORE_KEEP`: number of sets kept there.
    pub store_keep: usize,
    /// `SHMEM_FT_STORE_LAYOUT`: the location of a set's files.
    pub store_layout: StoreLayout,
    /// `SHMEM_FT_STORE_MEMORY`: bytes a node may use for disk writes, in addition to checkpoints.
    pub store_memory: u64,
    /// `SHMEM_FT_STORE_RATE`: bytes per second that a node writes there; 0: unlimited.
    pub store_rate: u64,
    /// `SHMEM_FT_STORE_COMPRESS`: zstd level of files written there; 0: not compressed.
    pub store_compress: u32,
    /// `SHMEM_FT_INJECT`: faults to inject; empty for none.
    pub inject: Vec<InjectedFault>,
    /// `SHMEM_FT_SINGLETON`: one of several tasks of another launcher is a job of one PE.
    pub singleton: bool,
    /// `SHMEM_SYMMETRIC_SIZE`: bytes of symmetric heap per PE; `None`: the library chooses.
    pub symmetric_size: Option<u64>,
    /// `SHMEM_INFO`: print the settings at start-up.
    pub info: bool,
    /// `SHMEM_VERSION`: print the library's version at start-up.
    pub version: bool,
    /// `SHMEM_DEBUG`: print debugging messages.
    pub debug: bool,
    /// `SHMEM_CHECK`: check the arguments of every call.
    pub check: bool,
    /// `SHMEM_FT_REPORT`: report losses and recoveries on standard error.
    pub report: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            backup_mode: BackupMode::None,
            group_size: None,
            parity: 1,
            snapshots: 1,
            interval: Interval::EACH_CALL,
            mtbf: None,
            substitute: Substitute::Spawn,
            rollback: Rollback::Global,
            log_limit: None,
            placement: Placement::Spread,
            domains: None,
            plan: None,
            audit: false,
            bind: Bind::Auto,
            affinity: true,
            pages: Pages::Auto,
            delta: Delta::Auto,
            track: Track::Auto,
            threads: 0,
            fabric: Fabric::Auto,
            device: None,
            collectives: Collectives::Auto,
            adopt: true,
            max_restarts: 3,
            memory_limit: None,
            node_timeout: Duration::from_secs(10),
            pe_timeout: None,
            stall: Duration::from_secs(60),
            trace: Trace::Info,
            checksum: true,
            scrub: 16 << 20,
            store: None,
            store_every: Every::Checkpoints(10),
            store_keep: 2,
            store_layout: StoreLayout::Shared,
            store_memory: 256 << 20,
            store_rate: 0,
            store_compress: 0,
            inject: Vec::new(),
            singleton: false,
            symmetric_size: None,
            info: false,
            version: false,
            debug: false,
            check: true,
            report: false,
        }
    }
}

impl Settings {
    /// Returns the time between two heartbeats; short enough that a few late ones do not count as a
    /// death.
    pub fn period(&self) -> Duration {
        self.node_timeout / 10
    }
}

/// Settings under construction: the default of the parity depends on the mode.
pub(super) struct Draft {
    pub settings: Settings,
    pub parity: Option<usize>,
}
