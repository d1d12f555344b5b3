//! The environment: one typed table that parses, bounds, prints and documents every setting.
//!
//! A setting is one row of [`table()`]: its name, the field of [`Settings`] with its type, its
//! default, its bounds ([`ValueKind`]), a description and a reason to change it. Everything else
//! follows from the row; a setting of a new type also needs that type ([`values`]).
//!
//! Settings take one way through a job:
//!
//! ```text
//! variables   `oshrun` reads its environment once, after its options and `-x` have become
//!             variables that override inherited ones; nothing else in the library reads `SHMEM_*`
//! message     the launcher sends every agent the [`Settings`] in force
//! variables   each agent sets them for its programs ([`Settings::to_env`]), which read them in
//!             `shmem_init`; a program without an agent reads what its user has set
//! ```
//!
//! A part of a job that the launcher derives from settings, such as the fabric in use or the size
//! of the heap, is no setting: it is in [`crate::message::Job`].
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

use std::time::Duration;

use thiserror::Error;

use crate::inject::{self, RuleError};

mod contradictions;
mod kind;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod units;
mod values;

pub use contradictions::{CONTRADICTIONS, Contradiction};
pub use kind::ValueKind;
pub use table::{Setting, Settings, table};
pub use text::{in_force, markdown};
pub use values::*;

/// The setting whose default depends on another one.
const PARITY: &str = "SHMEM_FT_PARITY";

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
    /// Settings that contradict each other.
    #[error("{line}")]
    Contradiction {
        /// The settings, the values that are possible, and the reason.
        line: String,
    },
}

impl Settings {
    /// Parses an environment. Skips variables that start with neither `SHMEM_` nor `SMA_`; the last
    /// of several equal names counts. Pure: reads only `vars`.
    ///
    /// # Errors
    /// The first invalid variable, or the first contradiction.
    pub fn from_env(
        vars: impl Iterator<Item = (String, String)>,
    ) -> Result<Settings, SettingError> {
        let mut settings = Settings::default();
        let vars: Vec<(String, String)> = vars.collect();
        for (name, value) in in_use(&vars) {
            match table().iter().find(|entry| entry.name == current(name)) {
                Some(entry) => parse_into(entry, name, &mut settings, value)?,
                None if name.starts_with("SHMEM_FT_") => {
                    let nearest = text::nearest(name);
                    let name = name.escape_debug().to_string();
                    return Err(SettingError::Unknown { name, nearest });
                }
                None => {}
            }
        }
        let chosen = vars.iter().any(|(name, _)| name == PARITY);
        if settings.backup_mode == BackupMode::Rs && !chosen {
            settings.parity = 2;
        }
        match Contradiction::of(&settings) {
            Some(row) => Err(SettingError::Contradiction { line: row.line(&settings) }),
            None => Ok(settings),
        }
    }

    /// Returns the settings in force as name and value, in the order of the table, without those
    /// that are unset. Passing them to [`Settings::from_env`] yields equal settings.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        table().iter().filter_map(|e| Some((e.name, e.show(self)?))).collect()
    }

    /// Returns the time between two heartbeats; short enough that a few late ones do not count as a
    /// death.
    pub fn period(&self) -> Duration {
        self.node_timeout / 10
    }

    /// Returns true if parity may be computed from copies while the program runs; `far` if nodes do
    /// not map each other.
    pub fn computes_behind(&self, far: bool) -> bool {
        let is_wanted = match self.background {
            Background::On => true,
            Background::Auto => far,
            Background::Off => false,
        };
        is_wanted && self.has_copies_to_read()
    }

    /// Returns true if a PE keeps two snapshots and two slots of parity, and no logs.
    fn has_copies_to_read(&self) -> bool {
        let has_room = self.snapshots == 2 && self.backup_mode.slots() == 2;
        has_room && self.rollback == Rollback::Global
    }
}

impl TryFrom<Vec<(String, String)>> for Settings {
    type Error = SettingError;

    fn try_from(vars: Vec<(String, String)>) -> Result<Settings, SettingError> {
        Settings::from_env(vars.into_iter())
    }
}

impl From<Settings> for Vec<(String, String)> {
    fn from(settings: Settings) -> Vec<(String, String)> {
        settings.to_env().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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

/// Parses `text` by the rules of `entry` and stores the value; `given` is the name that the user
/// wrote.
fn parse_into(
    entry: &Setting,
    given: &str,
    settings: &mut Settings,
    text: &str,
) -> Result<(), SettingError> {
    let old = OLD_NAMES.iter().find(|(old, _)| *old == given);
    let name = old.map_or(entry.name, |&(old, _)| old);
    match entry.kind.parse(text.trim()) {
        Some(value) => {
            entry.store(settings, value);
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
