//! The values of settings that are a choice of a few words; and an RDMA device.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units::{parse_count, parse_seconds, show_time};

/// The protection of a checkpoint (`single`, `double` and `raid4` are those of the thesis, for
/// comparison).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackupMode {
    /// No protection; a death ends the job.
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
    /// All modes, in the order of the documentation.
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

    /// Returns the name as `SHMEM_FT_BACKUP_MODE` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns true if the job can survive a death.
    pub const fn protects(self) -> bool {
        !matches!(self, BackupMode::None)
    }

    /// Returns true if every PE keeps a copy of its own live memory.
    pub const fn keeps_snapshot(self) -> bool {
        !matches!(self, BackupMode::None | BackupMode::Single)
    }

    /// Returns the number of slots for data that a PE keeps for other PEs: two parity slots (the
    /// agreed one and the one being written), one place for a copy, or 0.
    pub const fn slots(self) -> usize {
        match self {
            BackupMode::None => 0,
            BackupMode::Single | BackupMode::Double => 1,
            BackupMode::Raid4 | BackupMode::Raid5 | BackupMode::Rs => 2,
        }
    }
}

/// The frequency of writing a checkpoint to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// One in this many checkpoints.
    Checkpoints(u64),
    /// The first checkpoint after this much time.
    Time(Duration),
}

impl Every {
    /// Parses `10` or `2.5s`, of at most `max` checkpoints or milliseconds.
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

    /// Formats it as `SHMEM_FT_STORE_EVERY` spells it.
    pub fn show(self) -> String {
        match self {
            Every::Checkpoints(count) => count.to_string(),
            Every::Time(time) => show_time(time) + "s",
        }
    }
}

/// The location of a checkpoint's files on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreLayout {
    /// All in one folder that every node can access.
    #[default]
    Shared,
    /// Each node's files on its own disk, with the parity that it holds.
    Local,
}

impl StoreLayout {
    pub(super) const NAMES: [&'static str; 2] = ["shared", "local"];

    /// Returns the name as `SHMEM_FT_STORE_LAYOUT` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The replacement for a dead PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Substitute {
    /// An idle spare if there is one, otherwise a new process.
    #[default]
    Spawn,
    /// Only an idle spare; without one the job ends.
    Spare,
    /// No replacement: the number stays unused.
    Shrink,
}

impl Substitute {
    /// All choices, in the order of the documentation.
    pub const ALL: [Substitute; 3] = [Substitute::Spawn, Substitute::Spare, Substitute::Shrink];
    pub(super) const NAMES: [&'static str; 3] = ["spawn", "spare", "shrink"];

    /// Returns the name as `SHMEM_FT_SUBSTITUTE` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The PEs that roll back to the last checkpoint after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rollback {
    /// Every PE.
    #[default]
    Global,
    /// No PE.
    None,
    /// The lost PEs if the logs suffice, otherwise every PE.
    Local,
}

impl Rollback {
    /// All choices, in the order of the documentation.
    pub const ALL: [Rollback; 3] = [Rollback::Global, Rollback::None, Rollback::Local];
    pub(super) const NAMES: [&'static str; 3] = ["global", "none", "local"];

    /// Returns the name as `SHMEM_FT_ROLLBACK` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The response when no placement of groups survives the loss of any one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Spread over domains as well as possible, and report the losses that are not survivable.
    #[default]
    Spread,
    /// Refuse to start.
    Strict,
}

impl Placement {
    pub(super) const NAMES: [&'static str; 2] = ["spread", "strict"];

    /// Returns the name as `SHMEM_FT_PLACEMENT` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The CPU binding of PEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bind {
    /// Each PE to its share of the cores, if there are enough threads for all.
    #[default]
    Auto,
    /// Each PE to one core, or one thread of it, even if several PEs share it.
    Core,
    /// No binding.
    None,
}

impl Bind {
    pub(super) const NAMES: [&'static str; 3] = ["auto", "core", "none"];

    /// Returns the name as `SHMEM_FT_BIND` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The events that a PE records, for diagnosing a job that hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trace {
    /// No events.
    Off,
    /// Rare events: views, steps of a checkpoint and a recovery, connections.
    #[default]
    Info,
    /// In addition, every long wait.
    Debug,
}

impl Trace {
    /// All levels, in the order of the documentation.
    pub const ALL: [Trace; 3] = [Trace::Off, Trace::Info, Trace::Debug];
    pub(super) const NAMES: [&'static str; 3] = ["off", "info", "debug"];

    /// Returns the name as `SHMEM_FT_TRACE` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The page size of the memory of PEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pages {
    /// Huge pages for large heaps, if available.
    #[default]
    Auto,
    /// The smallest pages.
    Small,
}

impl Pages {
    pub(super) const NAMES: [&'static str; 2] = ["auto", "small"];

    /// Returns the name as `SHMEM_FT_PAGES` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The transport between PEs on different nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fabric {
    /// The library chooses.
    #[default]
    Auto,
    /// Memory that every PE maps: one machine only.
    Shm,
    /// UCX: TCP, and the other networks that it supports.
    Ucx,
    /// RDMA through ibverbs.
    Verbs,
}

impl Fabric {
    /// All fabrics, in the order of the documentation.
    pub const ALL: [Fabric; 4] = [Fabric::Auto, Fabric::Shm, Fabric::Ucx, Fabric::Verbs];
    pub(super) const NAMES: [&'static str; 4] = ["auto", "shm", "ucx", "verbs"];

    /// Returns the name as `SHMEM_FT_FABRIC` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// An RDMA device, and one of its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, as `ibv_devices` lists it.
    pub name: String,
    /// The port, from 1; `None`: the first active one.
    pub port: Option<u8>,
}

impl Device {
    /// Parses `NAME` or `NAME:PORT`; None if the text is invalid.
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

/// The algorithm of collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collectives {
    /// By nodes if nodes do not map each other's memory, otherwise directly.
    #[default]
    Auto,
    /// Each PE reads the data it needs in place.
    Direct,
    /// Within the node, then between node leaders, then within the node.
    Nodes,
    /// Among all PEs, with the fewest messages.
    Doubling,
    /// Among all PEs, with the fewest bytes.
    Halving,
}

impl Collectives {
    /// All algorithms, in the order of the documentation.
    pub const ALL: [Collectives; 5] = [
        Collectives::Auto,
        Collectives::Direct,
        Collectives::Nodes,
        Collectives::Doubling,
        Collectives::Halving,
    ];
    pub(super) const NAMES: [&'static str; 5] = ["auto", "direct", "nodes", "doubling", "halving"];

    /// Returns the name as `SHMEM_FT_COLLECTIVES` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The time from one checkpoint to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// Derived from the cost of a checkpoint and the rate of losses.
    Auto,
    /// A fixed time.
    After(Duration),
}

impl Interval {
    /// A checkpoint at each call.
    pub const EACH_CALL: Interval = Interval::After(Duration::ZERO);

    /// Formats it as the environment spells it.
    pub fn show(self) -> String {
        match self {
            Interval::Auto => "auto".to_owned(),
            Interval::After(time) => show_time(time),
        }
    }
}
