//! What a checkpoint does about memory that did not change: whether it looks, and how.

/// Whether a checkpoint looks for what changed since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delta {
    /// If little changed with the last one.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: all is copied.
    Off,
}

impl Delta {
    pub(super) const NAMES: [&'static str; 3] = ["auto", "on", "off"];

    /// The name as `SHMEM_FT_DELTA` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// How a checkpoint that looks for what changed finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Track {
    /// By pages where little changes, every write is seen and that is worth what it takes from the
    /// program, else by digests.
    #[default]
    Auto,
    /// By pages whenever every write is seen.
    Pages,
    /// By digests.
    Digests,
}

impl Track {
    pub(super) const NAMES: [&'static str; 3] = ["auto", "pages", "digests"];

    /// The name as `SHMEM_FT_TRACK` spells it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
