//! The environment: one typed table that parses, bounds, prints and documents every setting.
//!
//! Every setting is one [`Setting`] of [`table()`]: its name, its [`ValueKind`] (which holds the
//! bounds and does the parsing), its default, one sentence, a reason to change it, how it is stored
//! in [`Settings`] and how it is read back. Nothing else in the library looks at `SHMEM_*`
//! variables.
//!
//! Invariants: `from_env(s.to_env()) == s` for every `s` that `from_env` returned; an unknown
//! `SHMEM_FT_*` name or a value outside its bounds is one line that says what is allowed, never a
//! silent default. Other unknown `SHMEM_*` names are left alone: they may belong to other tools.
//!
//! Names without `FT` are those of OpenSHMEM 1.5, section 8 (environment variables), and
//! `SHMEM_CHECK`; names with it are this library's. The former have old names too ([`OLD_NAMES`]),
//! each of which counts where the new one is not set.
//!
//! Left out: reading the environment (the caller passes it in), and whether a group size fits the
//! number of PEs, which [`crate::placement::groups::plan`] decides when that number is known.

use thiserror::Error;

use crate::inject::{self, RuleError};

mod delta;
mod entry;
mod fields;
mod kind;
mod reasons;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod units;
mod values;

pub use delta::{Delta, Track};
pub use entry::Setting;
use fields::Draft;
pub use fields::Settings;
pub use kind::ValueKind;
pub use table::table;
pub use text::{in_force, markdown};
pub use values::{
    BackupMode, Bind, Collectives, Device, Every, Fabric, Interval, Pages, Placement, Rollback,
    StoreLayout, Substitute, Trace,
};

/// Deprecated names of the specification, and today's.
pub const OLD_NAMES: &[(&str, &str)] = &[
    ("SMA_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE"),
    ("SMA_INFO", "SHMEM_INFO"),
    ("SMA_VERSION", "SHMEM_VERSION"),
    ("SMA_DEBUG", "SHMEM_DEBUG"),
];

/// Why the environment was refused. Every message is one line that says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// A `SHMEM_FT_*` name that is not in the table.
    #[error("{name}: no such setting, nearest is {nearest}; `oshinfo` lists them")]
    Unknown {
        /// The name as found.
        name: String,
        /// The allowed name that is most like it.
        nearest: &'static str,
    },
    /// A value that is not of the setting's kind or outside its bounds.
    #[error("{name}={value}: expected {allowed}")]
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
    /// More than one parity in a mode that keeps exactly one.
    #[error(
        "SHMEM_FT_PARITY={parity}: expected 1 with SHMEM_FT_BACKUP_MODE={}; \
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
        "SHMEM_FT_SNAPSHOTS={snapshots}: expected 1 with SHMEM_FT_BACKUP_MODE={}; only raid4, \
         raid5 and rs may have another number",
        mode.name()
    )]
    Snapshots {
        /// The number asked for.
        snapshots: usize,
        /// The mode it was asked with.
        mode: BackupMode,
    },
    /// Checkpoints on disk in a mode of which no PE keeps its own data.
    #[error(
        "SHMEM_FT_STORE: expected double, raid4, raid5 or rs as SHMEM_FT_BACKUP_MODE, not {}: \
         checkpoints on disk are written from the copies in memory",
        .0.name()
    )]
    Store(BackupMode),
    /// Nobody goes back, but somebody is to take the place of the lost.
    #[error(
        "SHMEM_FT_ROLLBACK=none with SHMEM_FT_SUBSTITUTE={}: expected shrink, since a substitute \
         would begin where nobody else is",
        substitute.name()
    )]
    RollbackNone {
        /// What it was asked with.
        substitute: Substitute,
    },
    /// Nobody takes the place of the lost, but all are to go back.
    #[error("SHMEM_FT_SUBSTITUTE=shrink with SHMEM_FT_ROLLBACK=global: expected none")]
    ShrinkGlobal,
    /// The lost go back alone, to checkpoints that such a loss may leave without protection.
    #[error(
        "SHMEM_FT_ROLLBACK=local with SHMEM_FT_BACKUP_MODE={}: expected raid4, raid5 or rs",
        mode.name()
    )]
    LocalMode {
        /// The mode it was asked with.
        mode: BackupMode,
    },
    /// The lost go back alone, but nobody takes their place.
    #[error(
        "SHMEM_FT_ROLLBACK=local with SHMEM_FT_SUBSTITUTE=shrink: expected spawn or spare, since \
         a substitute goes back"
    )]
    LocalShrink,
    /// Checkpoints on disk of a job that goes back to none.
    #[error("SHMEM_FT_STORE with SHMEM_FT_ROLLBACK=none: expected global, since nobody goes back")]
    StoredInVain,
    /// Copies that a lost PE takes with it, in a job that goes on with fewer.
    #[error(
        "SHMEM_FT_ROLLBACK=none with SHMEM_FT_BACKUP_MODE={}: expected none, raid4, raid5 or rs, \
         from whose parity a lost PE's last checkpoint can be read",
        mode.name()
    )]
    KeptInVain {
        /// The mode it was asked with.
        mode: BackupMode,
    },
}

impl Settings {
    /// Parses an environment; variables that begin neither with `SHMEM_` nor with `SMA_` are
    /// skipped, and of a name given twice the last counts. Pure: reads nothing but `vars`.
    ///
    /// # Errors
    /// The first variable that is refused, or parity or snapshots that the mode cannot keep.
    pub fn from_env(
        vars: impl Iterator<Item = (String, String)>,
    ) -> Result<Settings, SettingError> {
        let mut draft = Draft { settings: Settings::default(), parity: None };
        let vars: Vec<(String, String)> = vars.collect();
        for (name, value) in in_use(&vars) {
            match table().iter().find(|entry| entry.name == current(name)) {
                Some(entry) => parse_into(entry, name, &mut draft, value)?,
                None if name.starts_with("SHMEM_FT_") => {
                    let nearest = text::nearest(name);
                    let name = name.escape_debug().to_string();
                    return Err(SettingError::Unknown { name, nearest });
                }
                None => {}
            }
        }
        draft.finish()
    }

    /// The settings that are in force, as name and value, in the order of the table; those that
    /// are unset are left out. [`Settings::from_env`] of it gives the same settings again.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        table().iter().filter_map(|e| Some((e.name, e.show(self)?))).collect()
    }
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
        if settings.store.is_some() && !mode.keeps_snapshot() {
            return Err(SettingError::Store(mode));
        }
        match (settings.substitute, settings.rollback) {
            (Substitute::Shrink, Rollback::None) if settings.store.is_some() => {
                return Err(SettingError::StoredInVain);
            }
            (Substitute::Shrink, Rollback::None) if mode.protects() && mode.slots() < 2 => {
                return Err(SettingError::KeptInVain { mode });
            }
            (Substitute::Shrink, Rollback::Global) => return Err(SettingError::ShrinkGlobal),
            (Substitute::Shrink, Rollback::Local) => return Err(SettingError::LocalShrink),
            (_, Rollback::Local) if mode.slots() < 2 => {
                return Err(SettingError::LocalMode { mode });
            }
            (substitute @ (Substitute::Spawn | Substitute::Spare), Rollback::None) => {
                return Err(SettingError::RollbackNone { substitute });
            }
            _ => {}
        }
        Ok(settings)
    }
}

/// The name today of a variable that may have its old one.
pub fn current(name: &str) -> &str {
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |&(_, new)| new)
}

/// The variables without those of an old name whose new one is set.
fn in_use(vars: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let is_set = |name: &str| vars.iter().any(|(other, _)| other == name);
    let pairs = vars.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    pairs.filter(move |(name, _)| current(name) == *name || !is_set(current(name)))
}

/// Stores what `text` says into `draft`, as `entry` parses and bounds it; `given` is the name that
/// it was given by.
fn parse_into(
    entry: &Setting,
    given: &str,
    draft: &mut Draft,
    text: &str,
) -> Result<(), SettingError> {
    let old = OLD_NAMES.iter().find(|(old, _)| *old == given);
    let name = old.map_or(entry.name, |&(old, _)| old);
    match entry.kind.parse(text.trim()) {
        Some(value) => {
            (entry.store)(draft, value);
            Ok(())
        }
        None => Err(match inject::parse(text) {
            Err(source) if entry.kind == ValueKind::Rules => SettingError::Rule { name, source },
            _ => SettingError::Value {
                name,
                value: text.escape_debug().to_string(),
                allowed: entry.allowed(),
            },
        }),
    }
}
