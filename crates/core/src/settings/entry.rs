//! One row of the settings table.

use super::fields::{Draft, Settings};
use super::kind::{Value, ValueKind};
use super::reasons::reason;

/// One setting: a row of the table.
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// The kind and bounds of its value.
    pub kind: ValueKind,
    /// The default as documentation prints it; a description if it is not a fixed value.
    pub default: &'static str,
    /// A short description.
    pub doc: &'static str,
    pub(super) store: fn(&mut Draft, Value),
    pub(super) show: fn(&Settings) -> Option<String>,
}

impl Setting {
    /// Returns the reason to change it, in one line.
    pub fn reason(&self) -> &'static str {
        reason(self.name)
    }

    /// Returns the allowed values, as documentation and error messages print them.
    pub fn allowed(&self) -> String {
        self.kind.allowed()
    }

    /// Returns the value in force as the environment would spell it; `None` if it is unset.
    pub fn show(&self, settings: &Settings) -> Option<String> {
        (self.show)(settings)
    }
}
