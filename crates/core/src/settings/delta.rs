//! Incremental checkpoints: the choice to look for unchanged memory, and the method.

/// The choice to copy only what changed since the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delta {
    /// Only if little changed at the last checkpoint.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: everything is copied.
    Off,
}

impl Delta {
    pub(super) const NAMES: [&'static str; 3] = ["auto", "on", "off"];

    /// Returns the name as `SHMEM_FT_DELTA` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The method of finding changed memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Track {
    /// By pages if little changes, every write is tracked and the gain exceeds the cost to the
    /// program; otherwise by digests.
    #[default]
    Auto,
    /// By pages whenever every write is tracked.
    Pages,
    /// By digests.
    Digests,
}

impl Track {
    pub(super) const NAMES: [&'static str; 3] = ["auto", "pages", "digests"];

    /// Returns the name as `SHMEM_FT_TRACK` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
