//! The environment: one typed table that parses, bounds, prints and documents every setting.
//!
//! Every setting is one [`Setting`] of [`table()`]: its name, its [`ValueKind`] (which parses and
//! bounds it), its default, a description, a reason to change it, and how it is stored in
//! [`Settings`] and read back. Nothing else in the library reads `SHMEM_*` variables.
//!
//! Invariants: `from_env(s.to_env()) == s` for every `s` that `from_env` returned; an unknown
//! `SHMEM_FT_*` name or a value outside its bounds is an error of one line that lists what is
//! allowed, never a silent default. Other unknown `SHMEM_*` names are ignored: they may belong to
//! other tools.
//!
//! Names without `FT` are those of OpenSHMEM 1.5, section 8 (environment variables), and
//! `SHMEM_CHECK`; names with it are this library's. Some of the former also have old names
//! ([`OLD_NAMES`]), which count only if the new one is not set.
//!
//! Left out: reading the environment (the caller passes it in), and the check that a group size
//! suits the number of PEs ([`crate::placement::groups::plan`], once that number is known).

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

/// Deprecated names of the specification, each with its current name.
pub const OLD_NAMES: &[(&str, &str)] = &[
    ("SMA_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_SIZE"),
    ("SMA_INFO", "SHMEM_INFO"),
    ("SMA_VERSION", "SHMEM_VERSION"),
    ("SMA_DEBUG", "SHMEM_DEBUG"),
];

/// An invalid environment. Every message is one line that lists what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// A `SHMEM_FT_*` name that is not in the table.
    #[error("{name}: no such setting, nearest is {nearest}; `oshinfo` lists them")]
    Unknown {
        /// The name as found.
        name: String,
        /// The most similar allowed name.
        nearest: &'static str,
    },
    /// A value that is not of the setting's kind or outside its bounds.
    #[error("{name}={value}: expected {allowed}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The value as found.
        value: String,
        /// The allowed values, as the table prints them.
        allowed: String,
    },
    /// A fault injection rule that cannot be read.
    #[error("{name}: {source}")]
    Rule {
        /// The setting.
        name: &'static str,
        /// The invalid rule and its error.
        source: RuleError,
    },
    /// More than one parity in a mode that keeps exactly one.
    #[error(
        "SHMEM_FT_PARITY={parity}: expected 1 with SHMEM_FT_BACKUP_MODE={}; \
         only rs may have another number",
        mode.name()
    )]
    Parity {
        /// The requested number.
        parity: usize,
        /// The requested mode.
        mode: BackupMode,
    },
    /// More than one snapshot in a mode that keeps no second parity slot either.
    #[error(
        "SHMEM_FT_SNAPSHOTS={snapshots}: expected 1 with SHMEM_FT_BACKUP_MODE={}; only raid4, \
         raid5 and rs may have another number",
        mode.name()
    )]
    Snapshots {
        /// The requested number.
        snapshots: usize,
        /// The requested mode.
        mode: BackupMode,
    },
    /// Checkpoints on disk in a mode in which PEs keep no copy of their own data.
    #[error(
        "SHMEM_FT_STORE: expected double, raid4, raid5 or rs as SHMEM_FT_BACKUP_MODE, not {}: \
         checkpoints on disk are written from the copies in memory",
        .0.name()
    )]
    Store(BackupMode),
    /// No PE rolls back, but lost PEs would be replaced.
    #[error(
        "SHMEM_FT_ROLLBACK=none with SHMEM_FT_SUBSTITUTE={}: expected shrink, since a substitute \
         would start over on its own",
        substitute.name()
    )]
    RollbackNone {
        /// The requested substitute.
        substitute: Substitute,
    },
    /// Lost PEs are not replaced, but all would roll back.
    #[error("SHMEM_FT_SUBSTITUTE=shrink with SHMEM_FT_ROLLBACK=global: expected none")]
    ShrinkGlobal,
    /// Local rollback to checkpoints that a loss may leave without protection.
    #[error(
        "SHMEM_FT_ROLLBACK=local with SHMEM_FT_BACKUP_MODE={}: expected raid4, raid5 or rs",
        mode.name()
    )]
    LocalMode {
        /// The requested mode.
        mode: BackupMode,
    },
    /// Local rollback without substitutes that could roll back.
    #[error(
        "SHMEM_FT_ROLLBACK=local with SHMEM_FT_SUBSTITUTE=shrink: expected spawn or spare, since \
         a substitute rolls back"
    )]
    LocalShrink,
    /// Checkpoints on disk in a job that never rolls back.
    #[error("SHMEM_FT_STORE with SHMEM_FT_ROLLBACK=none: expected global, since no PE rolls back")]
    StoredInVain,
    /// Shrink mode with copies that are lost together with their PE.
    #[error(
        "SHMEM_FT_ROLLBACK=none with SHMEM_FT_BACKUP_MODE={}: expected none, raid4, raid5 or rs, \
         from whose parity a lost PE's last checkpoint can be read",
        mode.name()
    )]
    KeptInVain {
        /// The requested mode.
        mode: BackupMode,
    },
}

impl Settings {
    /// Parses an environment. Skips variables that start with neither `SHMEM_` nor `SMA_`; the last
    /// of several equal names counts. Pure: reads only `vars`.
    ///
    /// # Errors
    /// The first invalid variable, or parity or snapshots that the mode cannot keep.
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

    /// Returns the settings in force as name and value, in the order of the table, without those
    /// that are unset. Passing them to [`Settings::from_env`] yields equal settings.
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

/// Returns the current name of a variable, which may be given by its old name.
pub fn current(name: &str) -> &str {
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |&(_, new)| new)
}

/// Returns the variables without old names whose new name is set as well.
fn in_use(vars: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let is_set = |name: &str| vars.iter().any(|(other, _)| other == name);
    let pairs = vars.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    pairs.filter(move |(name, _)| current(name) == *name || !is_set(current(name)))
}

/// Parses `text` by the rules of `entry` and stores the value in `draft`; `given` is the name that
/// the user wrote.
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
