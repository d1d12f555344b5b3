//! What a setting may be, where that is one of a few words; and a device.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units::{parse_count, parse_seconds, show_time};

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
    pub(super) const NAMES: [&'static str; 6] =
        ["none", "single", "double", "raid4", "raid5", "rs"];

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

/// How often a checkpoint is written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Each time so many were made.
    Checkpoints(u64),
    /// The first that is made after so much time.
    Time(Duration),
}

impl Every {
    /// Reads `10` or `2.5s`, of at most `max` checkpoints or milliseconds.
    pub(super) fn parse(text: &str, max: u64) -> Option<Every> {
        let inside = |number: &u64| (1..=max).contains(number);
        match text.strip_suffix('s') {
            Some(seconds) => {
                let ms = parse_seconds(seconds).filter(inside)?;
                Some(Every::Time(Duration::from_millis(ms)))
            }
            None => parse_count(text).filter(inside).map(Every::Checkpoints),
        }
    }

    /// As `SHMEM_FT_STORE_EVERY` spells it.
    pub fn show(self) -> String {
        match self {
            Every::Checkpoints(count) => count.to_string(),
            Every::Time(time) => show_time(time) + "s",
        }
    }
}

/// Where the files of a checkpoint on disk lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreLayout {
    /// All in one folder that every node sees.
    #[default]
    Shared,
    /// Those of each node on its own disk, with the parity that it holds.
    Local,
}

impl StoreLayout {
    pub(super) const NAMES: [&'static str; 2] = ["shared", "local"];

    /// The name as `SHMEM_FT_STORE_LAYOUT` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What takes the place of a dead PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Substitute {
    /// A sleeping spare where there is one, else a new process.
    #[default]
    Spawn,
    /// Only a sleeping spare; without one the job ends.
    Spare,
    /// Nothing: its number stays empty.
    Shrink,
}

impl Substitute {
    /// Every way, in the order of the documentation.
    pub const ALL: [Substitute; 3] = [Substitute::Spawn, Substitute::Spare, Substitute::Shrink];
    pub(super) const NAMES: [&'static str; 3] = ["spawn", "spare", "shrink"];

    /// The name as `SHMEM_FT_SUBSTITUTE` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Who goes back to the last checkpoint after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rollback {
    /// Every PE.
    #[default]
    Global,
    /// Nobody.
    None,
    /// The lost PEs, as far as the logs go; else every PE.
    Local,
}

impl Rollback {
    /// Every way, in the order of the documentation.
    pub const ALL: [Rollback; 3] = [Rollback::Global, Rollback::None, Rollback::Local];
    pub(super) const NAMES: [&'static str; 3] = ["global", "none", "local"];

    /// The name as `SHMEM_FT_ROLLBACK` spells it.
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
    pub(super) const NAMES: [&'static str; 2] = ["spread", "strict"];

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
    pub(super) const NAMES: [&'static str; 3] = ["auto", "core", "none"];

    /// The name as `SHMEM_FT_BIND` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Which events a PE keeps, to be read when a job hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trace {
    /// None.
    Off,
    /// Rare events: views, steps of a checkpoint and a recovery, connections.
    #[default]
    Info,
    /// And every wait that lasts.
    Debug,
}

impl Trace {
    /// Every level, in the order of the documentation.
    pub const ALL: [Trace; 3] = [Trace::Off, Trace::Info, Trace::Debug];
    pub(super) const NAMES: [&'static str; 3] = ["off", "info", "debug"];

    /// The name as `SHMEM_FT_TRACE` spells it.
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
    pub(super) const NAMES: [&'static str; 2] = ["auto", "small"];

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
    pub(super) const NAMES: [&'static str; 4] = ["auto", "shm", "ucx", "verbs"];

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
    pub(super) const NAMES: [&'static str; 5] = ["auto", "direct", "nodes", "doubling", "halving"];

    /// The name as `SHMEM_FT_COLLECTIVES` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// How long after a checkpoint the next one is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// As what a checkpoint costs and the losses suggest.
    Auto,
    /// This time.
    After(Duration),
}

impl Interval {
    /// Each call makes a checkpoint.
    pub const EACH_CALL: Interval = Interval::After(Duration::ZERO);

    /// As the environment spells it.
    pub fn show(self) -> String {
        match self {
            Interval::Auto => "auto".to_owned(),
            Interval::After(time) => show_time(time),
        }
    }
}
