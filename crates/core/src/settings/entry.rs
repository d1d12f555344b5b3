//! One row of the settings table.

use super::fields::{Draft, Settings};
use super::kind::{Value, ValueKind};
use super::reasons::reason;

/// One setting: a row of the table.
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// What its value may be.
    pub kind: ValueKind,
    /// The default as documentation prints it; in words where it is not a value.
    pub default: &'static str,
    /// One sentence on what it does.
    pub doc: &'static str,
    pub(super) store: fn(&mut Draft, Value),
    pub(super) show: fn(&Settings) -> Option<String>,
}

impl Setting {
    /// Why somebody would change it, in one line.
    pub fn reason(&self) -> &'static str {
        reason(self.name)
    }

    /// What is allowed, as documentation and error messages print it.
    pub fn allowed(&self) -> String {
        self.kind.allowed()
    }

    /// The value in force as the environment would spell it; `None` where it is unset.
    pub fn show(&self, settings: &Settings) -> Option<String> {
        (self.show)(settings)
    }
}
