//! The types of settings that are no bare numbers or texts: choices of a few words, and others.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use raidshmem_codec::stripe::Scheme;
use serde::{Deserialize, Serialize};

use super::units::{parse_count, parse_seconds, show_time};

/// A type whose value is one of a few words.
pub(super) trait Worded: Copy + 'static {
    /// Returns all choices, in the order of their words.
    fn all() -> &'static [Self];

    /// Returns the word.
    fn word(self) -> &'static str;
}

/// Defines the type of a setting whose value is one of a few words, with the spelling of each.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident: $($(#[$doc:meta])* $word:ident = $text:literal,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $word,)*
        }

        impl $name {
            pub(super) const NAMES: &[&'static str] = &[$($text),*];
            /// All choices, in the order of the documentation.
            pub const ALL: [$name; Self::NAMES.len()] = [$($name::$word),*];

            /// Returns the name as the environment spells it.
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl Worded for $name {
            fn all() -> &'static [$name] {
                &$name::ALL
            }

            fn word(self) -> &'static str {
                self.name()
            }
        }
    };
}

choice! {
    /// The protection of a checkpoint (`single`, `double` and `raid4` are those of the thesis, for
    /// comparison).
    BackupMode:
    /// No protection; a death ends the job.
    #[default]
    None = "none",
    /// One full copy, on another PE of the group.
    Single = "single",
    /// Two full copies: one local, one on another PE of the group.
    Double = "double",
    /// A local copy and one XOR parity per group, all of it on one PE.
    Raid4 = "raid4",
    /// A local copy and one XOR parity per group, rotating over its PEs.
    Raid5 = "raid5",
    /// A local copy and several rotating Reed-Solomon parities per group.
    Rs = "rs",
}

impl BackupMode {
    /// Returns true if the job can survive a death.
    pub const fn protects(self) -> bool {
        !matches!(self, BackupMode::None)
    }

    /// Returns the layout of the copies or parity of a group; `parity` counts only for `rs`.
    pub const fn scheme(self, parity: usize) -> Option<Scheme> {
        match self {
            BackupMode::None => None,
            BackupMode::Single | BackupMode::Double => Some(Scheme::Mirror),
            BackupMode::Raid4 => Some(Scheme::Raid4),
            BackupMode::Raid5 => Some(Scheme::Raid5),
            BackupMode::Rs => Some(Scheme::Rs { parity }),
        }
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
}

impl Display for Every {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match *self {
            Every::Checkpoints(count) => write!(f, "{count}"),
            Every::Time(time) => write!(f, "{}s", show_time(time)),
        }
    }
}

choice! {
    /// The location of a checkpoint's files on disk.
    StoreLayout:
    /// All in one folder that every node can access.
    #[default]
    Shared = "shared",
    /// Each node's files on its own disk, with the parity that it holds.
    Local = "local",
}

choice! {
    /// The replacement for a dead PE.
    Substitute:
    /// An idle spare if there is one, otherwise a new process.
    #[default]
    Spawn = "spawn",
    /// Only an idle spare; without one the job ends.
    Spare = "spare",
    /// No replacement: the number stays unused.
    Shrink = "shrink",
}

choice! {
    /// The PEs that roll back to the last checkpoint after a loss.
    Rollback:
    /// Every PE.
    #[default]
    Global = "global",
    /// No PE.
    None = "none",
    /// The lost PEs if the logs suffice, otherwise every PE.
    Local = "local",
}

choice! {
    /// The response when no placement of groups survives the loss of any one domain.
    Placement:
    /// Spread over domains as well as possible, and report the losses that are not survivable.
    #[default]
    Spread = "spread",
    /// Refuse to start.
    Strict = "strict",
}

choice! {
    /// The CPU binding of PEs.
    Bind:
    /// Each PE to its share of the cores, if there are enough threads for all.
    #[default]
    Auto = "auto",
    /// Each PE to one core, or one thread of it, even if several PEs share it.
    Core = "core",
    /// No binding.
    None = "none",
}

choice! {
    /// The events that a PE records, for diagnosing a job that hangs.
    Trace:
    /// No events.
    Off = "off",
    /// Rare events: views, steps of a checkpoint and a recovery, connections.
    #[default]
    Info = "info",
    /// In addition, every long wait.
    Debug = "debug",
}

choice! {
    /// The page size of the memory of PEs.
    Pages:
    /// Huge pages for large heaps, if available.
    #[default]
    Auto = "auto",
    /// The smallest pages.
    Small = "small",
}

choice! {
    /// The transport between PEs on different nodes.
    #[derive(Serialize, Deserialize)]
    Fabric:
    /// The library chooses.
    #[default]
    Auto = "auto",
    /// Memory that every PE maps: one machine only.
    Shm = "shm",
    /// UCX: TCP, and the other networks that it supports.
    Ucx = "ucx",
    /// RDMA through ibverbs.
    Verbs = "verbs",
    /// libfabric: Slingshot, EFA, Omni-Path, and TCP.
    Ofi = "ofi",
}

/// An RDMA device, and one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Display for Device {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(&self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A provider of libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider(String);

impl Provider {
    /// Parses the name of a provider; None if the text is invalid.
    pub fn parse(text: &str) -> Option<Provider> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.;".contains(c);
        let named = !text.is_empty() && text.chars().all(plain);
        named.then(|| Provider(text.to_owned()))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

choice! {
    /// The algorithm of collectives.
    Collectives:
    /// By nodes if nodes do not map each other's memory, otherwise directly.
    #[default]
    Auto = "auto",
    /// Each PE reads the data it needs in place.
    Direct = "direct",
    /// Within the node, then between node leaders, then within the node.
    Nodes = "nodes",
    /// Among all PEs, with the fewest messages.
    Doubling = "doubling",
    /// Among all PEs, with the fewest bytes.
    Halving = "halving",
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
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match *self {
            Interval::Auto => f.write_str("auto"),
            Interval::After(time) => f.write_str(&show_time(time)),
        }
    }
}

choice! {
    /// The choice to copy only what changed since the last checkpoint.
    Delta:
    /// Only if little changed at the last checkpoint.
    #[default]
    Auto = "auto",
    /// Always.
    On = "on",
    /// Never: everything is copied.
    Off = "off",
}

choice! {
    /// The computation of parity while the program runs.
    Background:
    /// Never: the call returns once the checkpoint protects.
    #[default]
    Off = "off",
    /// Between nodes that do not map each other, if each PE keeps two snapshots.
    Auto = "auto",
    /// Always.
    On = "on",
}

choice! {
    /// The method of finding changed memory.
    Track:
    /// By pages if little changes, every write is tracked and the gain exceeds the cost to the
    /// program; otherwise by digests.
    #[default]
    Auto = "auto",
    /// By pages whenever every write is tracked.
    Pages = "pages",
    /// By digests.
    Digests = "digests",
}
