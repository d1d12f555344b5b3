//! The environment: one typed table that parses, bounds, prints and documents every setting.
//!
//! Every setting is one [`Entry`] of [`table()`]: its name, its [`Kind`] (which holds the bounds
//! and does the parsing), its default, one sentence, how it is stored in [`Settings`] and how it is
//! read back. Nothing else in the library looks at `SHMEM_*` variables.
//!
//! Invariants: `from_env(s.to_env()) == s` for every `s` that `from_env` returned; an unknown
//! `SHMEM_FT_*` name or a value outside its bounds is one line that says what is allowed, never a
//! silent default. Other unknown `SHMEM_*` names are left alone: they may belong to other tools.
//!
//! Names without `FT` are those of OpenSHMEM 1.5, section 8 (environment variables), and
//! `SHMEM_CHECK`; names with it are this library's.
//!
//! Left out: reading the environment (the caller passes it in), and whether a group size fits the
//! number of PEs, which [`crate::placement::groups::plan`] decides when that number is known.

#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::inject::{self, Rule, RuleError};

mod delta;
mod kind;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod units;

pub use delta::{Delta, Track};
pub use kind::Kind;
pub use table::{Entry, markdown, table};

/// How a checkpoint is protected (`single`, `double` and `raid4` are what the thesis describes, for
/// comparison).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackupMode {
    /// Nothing is kept; a death ends the job.
    #[default]
    None,
    /// One full copy, on another PE of the group.
    Single,
    /// Two full copies: one local, one on another PE of the group.
    Double,
    /// A local copy and one XOR parity per group, all of it on one PE.
    Raid4,
    /// A local copy and one XOR parity per group, rotating over its PEs.
    Raid5,
    /// A local copy and several rotating Reed-Solomon parities per group.
    Rs,
}

impl BackupMode {
    /// Every mode, in the order of the documentation.
    pub const ALL: [BackupMode; 6] = [
        BackupMode::None,
        BackupMode::Single,
        BackupMode::Double,
        BackupMode::Raid4,
        BackupMode::Raid5,
        BackupMode::Rs,
    ];
    const NAMES: [&'static str; 6] = ["none", "single", "double", "raid4", "raid5", "rs"];

    /// The name as `SHMEM_FT_BACKUP_MODE` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// True if a death can be survived.
    pub const fn protects(self) -> bool {
        !matches!(self, BackupMode::None)
    }

    /// True if every PE keeps a copy of its own live memory.
    pub const fn keeps_snapshot(self) -> bool {
        !matches!(self, BackupMode::None | BackupMode::Single)
    }

    /// Slots for what a PE keeps for others: two parity slots (the agreed one and the one being
    /// written), or one place for a copy, or none.
    pub const fn slots(self) -> usize {
        match self {
            BackupMode::None => 0,
            BackupMode::Single | BackupMode::Double => 1,
            BackupMode::Raid4 | BackupMode::Raid5 | BackupMode::Rs => 2,
        }
    }
}

/// Who takes the place of a dead PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Substitute {
    /// A sleeping spare where there is one, else a new process.
    #[default]
    Spawn,
    /// Only a sleeping spare; without one the job ends.
    Spare,
}

impl Substitute {
    const NAMES: [&'static str; 2] = ["spawn", "spare"];

    /// The name as `SHMEM_FT_SUBSTITUTE` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What happens when groups cannot be placed so that they survive the loss of any one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Spread over domains as well as can be, and say what is not survived.
    #[default]
    Spread,
    /// Refuse to start.
    Strict,
}

impl Placement {
    const NAMES: [&'static str; 2] = ["spread", "strict"];

    /// The name as `SHMEM_FT_PLACEMENT` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What PEs are bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bind {
    /// Each to its share of the cores, if there are enough threads for all.
    #[default]
    Auto,
    /// Each to one core, or one thread of it, however many there are.
    Core,
    /// Nothing.
    None,
}

impl Bind {
    const NAMES: [&'static str; 3] = ["auto", "core", "none"];

    /// The name as `SHMEM_FT_BIND` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Pages of the memory of PEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pages {
    /// Huge ones for large heaps, where they can be had.
    #[default]
    Auto,
    /// The smallest.
    Small,
}

impl Pages {
    const NAMES: [&'static str; 2] = ["auto", "small"];

    /// The name as `SHMEM_FT_PAGES` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What carries data between PEs that are on different nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fabric {
    /// The library chooses.
    #[default]
    Auto,
    /// Memory that every PE maps: one machine only.
    Shm,
    /// UCX: TCP, and the other networks it drives.
    Ucx,
    /// RDMA by ibverbs.
    Verbs,
}

impl Fabric {
    /// Every fabric, in the order of the documentation.
    pub const ALL: [Fabric; 4] = [Fabric::Auto, Fabric::Shm, Fabric::Ucx, Fabric::Verbs];
    const NAMES: [&'static str; 4] = ["auto", "shm", "ucx", "verbs"];

    /// The name as `SHMEM_FT_FABRIC` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A device for RDMA, and one of its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, as `ibv_devices` lists it.
    pub name: String,
    /// From 1; `None`: the first that is active.
    pub port: Option<u8>,
}

impl Device {
    /// From `NAME` or `NAME:PORT`; None if it is neither.
    pub fn parse(text: &str) -> Option<Device> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok().filter(|&port| port > 0)?)),
            None => (text, None),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let named = !name.is_empty() && name.chars().all(plain);
        named.then(|| Device { name: name.to_owned(), port })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// How PEs act together in a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collectives {
    /// By nodes where nodes do not map each other, else directly.
    #[default]
    Auto,
    /// Each PE reads what it needs where it lies.
    Direct,
    /// Within the node, then between the leaders of nodes, then within the node.
    Nodes,
    /// Among all PEs, in the fewest messages.
    Doubling,
    /// Among all PEs, in the fewest bytes.
    Halving,
}

impl Collectives {
    /// Every way, in the order of the documentation.
    pub const ALL: [Collectives; 5] = [
        Collectives::Auto,
        Collectives::Direct,
        Collectives::Nodes,
        Collectives::Doubling,
        Collectives::Halving,
    ];
    const NAMES: [&'static str; 5] = ["auto", "direct", "nodes", "doubling", "halving"];

    /// The name as `SHMEM_FT_COLLECTIVES` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// All settings of one run, parsed and within bounds. `default()` is the empty environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `SHMEM_FT_BACKUP_MODE`.
    pub backup_mode: BackupMode,
    /// `SHMEM_FT_GROUP_SIZE`: PEs in a parity group; `None`: chosen from the number of PEs.
    pub group_size: Option<usize>,
    /// `SHMEM_FT_PARITY`: parities of a group, that is, losses it survives; 1 unless mode `rs`.
    pub parity: usize,
    /// `SHMEM_FT_SNAPSHOTS`: local copies that a PE keeps, in turns; 1 but in modes with parity.
    pub snapshots: usize,
    /// `SHMEM_FT_SUBSTITUTE`.
    pub substitute: Substitute,
    /// `SHMEM_FT_PLACEMENT`.
    pub placement: Placement,
    /// `SHMEM_FT_DOMAINS`: path of a file of failure domains.
    pub domains: Option<String>,
    /// `SHMEM_FT_BIND`.
    pub bind: Bind,
    /// `SHMEM_FT_PAGES`.
    pub pages: Pages,
    /// `SHMEM_FT_DELTA`: a checkpoint may look for what changed.
    pub delta: Delta,
    /// `SHMEM_FT_TRACK`: how it finds that.
    pub track: Track,
    /// `SHMEM_FT_THREADS`: threads of a PE in a checkpoint or recovery; 0: as many as it has
    /// processors for itself.
    pub threads: usize,
    /// `SHMEM_FT_FABRIC`.
    pub fabric: Fabric,
    /// `SHMEM_FT_DEVICE`: the device for RDMA; `None`: the first with an active port.
    pub device: Option<Device>,
    /// `SHMEM_FT_COLLECTIVES`.
    pub collectives: Collectives,
    /// `SHMEM_FT_ADOPT`: a substitute may take over the memory that a dead process left behind.
    pub adopt: bool,
    /// `SHMEM_FT_MAX_RESTARTS`: deaths of one PE between two checkpoints before the job ends.
    pub max_restarts: u32,
    /// `SHMEM_FT_MEMORY_LIMIT`: most bytes of all checkpoints on a machine; `None`: what is free.
    pub memory_limit: Option<u64>,
    /// `SHMEM_FT_HEARTBEAT`; `None`: a tenth of the timeout of a node.
    pub heartbeat: Option<Duration>,
    /// `SHMEM_FT_NODE_TIMEOUT`: a node without the launcher for this time ends itself.
    pub node_timeout: Duration,
    /// `SHMEM_FT_PE_TIMEOUT`: a stopped PE is killed after this; `None`: never.
    pub pe_timeout: Option<Duration>,
    /// `SHMEM_FT_STALL`: who waits for longer in one call is told of; zero: nobody is.
    pub stall: Duration,
    /// `SHMEM_FT_CHECKSUM`: blocks of a checkpoint carry checksums.
    pub checksum: bool,
    /// `SHMEM_FT_SCRUB`: bytes a second in which a PE looks over its checkpoint; 0 is off.
    pub scrub: u64,
    /// `SHMEM_FT_INJECT`: faults to inject; empty for none.
    pub inject: Vec<Rule>,
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
    /// `SHMEM_FT_REPORT`: say on standard error what was lost and how it was recovered.
    pub report: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            backup_mode: BackupMode::None,
            group_size: None,
            parity: 1,
            snapshots: 1,
            substitute: Substitute::Spawn,
            placement: Placement::Spread,
            domains: None,
            bind: Bind::Auto,
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
            heartbeat: None,
            node_timeout: Duration::from_secs(10),
            pe_timeout: None,
            stall: Duration::from_secs(60),
            checksum: true,
            scrub: 16 << 20,
            inject: Vec::new(),
            symmetric_size: None,
            info: false,
            version: false,
            debug: false,
            check: true,
            report: false,
        }
    }
}

/// Why the environment was refused. Every message is one line that says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// A `SHMEM_FT_*` name that is not in the table.
    #[error("{name}: no such setting, nearest is {nearest}; allowed are {}", table::ft_names())]
    Unknown {
        /// The name as found.
        name: String,
        /// The allowed name with the fewest letters to change.
        nearest: &'static str,
    },
    /// A value that is not of the setting's kind or outside its bounds.
    #[error("{name}={value}: allowed are {allowed}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The value as found.
        value: String,
        /// What is allowed, as the table prints it.
        allowed: String,
    },
    /// A fault injection rule that cannot be read.
    #[error("{name}: {source}")]
    Rule {
        /// The setting.
        name: &'static str,
        /// What is wrong with which rule.
        source: RuleError,
    },
    /// Heartbeats too rare for the timeout.
    #[error(
        "SHMEM_FT_HEARTBEAT={}: allowed is at most a quarter of SHMEM_FT_NODE_TIMEOUT={}",
        .heartbeat.as_secs_f64(),
        .timeout.as_secs_f64()
    )]
    Heartbeat {
        /// Between two.
        heartbeat: Duration,
        /// The timeout of a node.
        timeout: Duration,
    },
    /// More than one parity in a mode that keeps exactly one.
    #[error(
        "SHMEM_FT_PARITY={parity}: allowed is 1 with SHMEM_FT_BACKUP_MODE={}; \
         only rs may have another number",
        mode.name()
    )]
    Parity {
        /// The number asked for.
        parity: usize,
        /// The mode it was asked with.
        mode: BackupMode,
    },
    /// More than one snapshot in a mode that has no second place for parity either.
    #[error(
        "SHMEM_FT_SNAPSHOTS={snapshots}: allowed is 1 with SHMEM_FT_BACKUP_MODE={}; only raid4, \
         raid5 and rs may have another number",
        mode.name()
    )]
    Snapshots {
        /// The number asked for.
        snapshots: usize,
        /// The mode it was asked with.
        mode: BackupMode,
    },
}

impl Settings {
    /// Parses an environment; variables that do not begin with `SHMEM_` are skipped, and of a name
    /// given twice the last counts. Pure: reads nothing but `vars`.
    ///
    /// # Errors
    /// The first variable that is refused, or parity or snapshots that the mode cannot keep.
    pub fn from_env(
        vars: impl Iterator<Item = (String, String)>,
    ) -> Result<Settings, SettingError> {
        let mut draft = Draft { settings: Settings::default(), parity: None };
        for (name, value) in vars {
            match table().iter().find(|entry| entry.name == name) {
                Some(entry) => entry.parse_into(&mut draft, &value)?,
                None if name.starts_with("SHMEM_FT_") => {
                    let nearest = table::nearest(&name);
                    let name = name.escape_debug().to_string();
                    return Err(SettingError::Unknown { name, nearest });
                }
                None => {}
            }
        }
        draft.finish()
    }

    /// Time between two heartbeats.
    pub fn period(&self) -> Duration {
        self.heartbeat.unwrap_or(self.node_timeout / 10)
    }

    /// The settings that are in force, as name and value, in the order of the table; those that
    /// are unset are left out. [`Settings::from_env`] of it gives the same settings again.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        table().iter().filter_map(|e| Some((e.name, e.show(self)?))).collect()
    }
}

/// Settings under construction: the default of the parity depends on the mode.
struct Draft {
    settings: Settings,
    parity: Option<usize>,
}

impl Draft {
    fn finish(self) -> Result<Settings, SettingError> {
        let mut settings = self.settings;
        let mode = settings.backup_mode;
        settings.parity = match (mode, self.parity) {
            (BackupMode::Rs, parity) => parity.unwrap_or(2),
            (_, None | Some(1)) => 1,
            (_, Some(parity)) => return Err(SettingError::Parity { parity, mode }),
        };
        if settings.snapshots > mode.slots().max(1) {
            return Err(SettingError::Snapshots { snapshots: settings.snapshots, mode });
        }
        let (heartbeat, timeout) = (settings.period(), settings.node_timeout);
        if heartbeat > timeout / 4 {
            return Err(SettingError::Heartbeat { heartbeat, timeout });
        }
        Ok(settings)
    }
}
