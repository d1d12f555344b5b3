//! Settings that contradict each other: one table, by which settings are refused and from which
//! `docs/matrix.md` lists the refusals.
//!
//! Invariant: a row is here because its settings exclude each other. A capability that is missing
//! in the company of another one falls back instead, with a line ([`crate::capability`]).

use super::table::{Settings, table};
use super::values::{Background, BackupMode, Rollback, Substitute};

/// A contradiction between settings.
pub struct Contradiction {
    /// The settings, as environment variables.
    pub settings: &'static [&'static str],
    /// The values that are possible.
    expected: &'static str,
    /// The reason for it.
    reason: &'static str,
    holds: fn(&Settings) -> bool,
}

impl Contradiction {
    /// Returns the first contradiction between settings.
    pub fn of(settings: &Settings) -> Option<&'static Contradiction> {
        CONTRADICTIONS.iter().find(|row| (row.holds)(settings))
    }

    /// Returns the line for settings that contradict each other in this way.
    pub fn line(&self, settings: &Settings) -> String {
        let value = |name: &&str| {
            let row = table().iter().find(|row| row.name == *name)?;
            Some(format!("{name}={}", row.show(settings)?))
        };
        let values: Vec<String> = self.settings.iter().filter_map(value).collect();
        self.explain(&values)
    }

    /// Explains the contradiction between these settings, as its row names them.
    pub(crate) fn explain(&self, settings: &[String]) -> String {
        let settings = settings.join(" and ").replacen(" and ", " with ", 1);
        format!("{settings}: expected {}, since {}", self.expected, self.reason)
    }
}

/// All contradictions.
pub static CONTRADICTIONS: [Contradiction; 8] = [
    Contradiction {
        settings: &["SHMEM_FT_PARITY", "SHMEM_FT_BACKUP_MODE"],
        expected: "SHMEM_FT_PARITY=1, or the mode rs",
        reason: "only rs has several parities",
        holds: |s| s.backup_mode != BackupMode::Rs && s.parity != 1,
    },
    Contradiction {
        settings: &["SHMEM_FT_SNAPSHOTS", "SHMEM_FT_BACKUP_MODE"],
        expected: "SHMEM_FT_SNAPSHOTS=1, or the mode raid4, raid5 or rs",
        reason: "the other modes overwrite the one copy on another PE",
        holds: |s| s.snapshots > s.backup_mode.slots().max(1),
    },
    Contradiction {
        settings: &["SHMEM_FT_BACKGROUND", "SHMEM_FT_SNAPSHOTS", "SHMEM_FT_ROLLBACK"],
        expected: "SHMEM_FT_SNAPSHOTS=2 and SHMEM_FT_ROLLBACK=global",
        reason: "parity is computed from copies while the program runs",
        holds: |s| s.background == Background::On && !s.has_copies_to_read(),
    },
    Contradiction {
        settings: &["SHMEM_FT_STORE", "SHMEM_FT_BACKUP_MODE"],
        expected: "the mode double, raid4, raid5 or rs",
        reason: "checkpoints on disk are written from the copies in memory",
        holds: |s| s.store.is_some() && !s.backup_mode.keeps_snapshot(),
    },
    Contradiction {
        settings: &["SHMEM_FT_ROLLBACK", "SHMEM_FT_SUBSTITUTE"],
        expected: "none together with shrink, or neither",
        reason: "a substitute rolls back, and without one no PE does",
        holds: |s| (s.substitute == Substitute::Shrink) != (s.rollback == Rollback::None),
    },
    Contradiction {
        settings: &["SHMEM_FT_STORE", "SHMEM_FT_ROLLBACK"],
        expected: "SHMEM_FT_ROLLBACK=global or local",
        reason: "a set on disk holds all PEs, and with none they become fewer",
        holds: |s| s.store.is_some() && s.rollback == Rollback::None,
    },
    Contradiction {
        settings: &["SHMEM_FT_ROLLBACK", "SHMEM_FT_BACKUP_MODE"],
        expected: "the mode raid4, raid5 or rs",
        reason: "with the others a loss in a checkpoint may leave none to roll back to",
        holds: |s| s.rollback == Rollback::Local && s.backup_mode.slots() < 2,
    },
    Contradiction {
        settings: &["SHMEM_FT_ROLLBACK", "SHMEM_FT_BACKUP_MODE"],
        expected: "the mode none, raid4, raid5 or rs",
        reason: "with the others a loss in a checkpoint may leave none to read from",
        holds: |s| {
            let mode = s.backup_mode;
            s.rollback == Rollback::None && mode.protects() && mode.slots() < 2
        },
    },
];
