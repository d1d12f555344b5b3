//! Capabilities of the library: the places where each works, and the others in whose company.
//!
//! [`markdown`] prints `docs/matrix.md` from the tables here and the contradictions between
//! settings ([`crate::settings::CONTRADICTIONS`]). A settings check refuses contradictions; where a
//! capability falls back, the code that provides it asks [`Capability::fallback`].
//!
//! Left out: what a job survives, which `placement` and `plan` compute.

use crate::settings::{
    Background, BackupMode, CONTRADICTIONS, Contradiction, Delta, Fabric, Interval, Rollback,
    Settings, StoreLayout, Substitute, Track,
};

/// A capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// All PEs roll back after a loss.
    Global,
    /// Only the lost PEs roll back.
    Local,
    /// No PE rolls back, and lost PEs are not replaced.
    Shrink,
    /// Memory that the program declares read-only.
    ReadOnly,
    /// Private memory that the program registers.
    Private,
    /// Memory that the program excludes.
    Excluded,
    /// A plan of the adviser.
    Plan,
    /// Sets on a disk that all nodes share.
    SharedDisk,
    /// Sets on the disk of each node.
    NodeDisks,
    /// Two snapshots.
    TwoSnapshots,
    /// Parity that is computed while the program runs.
    Background,
    /// Checkpoints that write only what has changed.
    Delta,
    /// Changes that the kernel reports, by pages.
    Tracking,
    /// Calls that pass until a checkpoint is due.
    Interval,
    /// Checks of the store in idle time.
    Scrub,
    /// The places of threads and pages.
    Affinity,
}

/// The places of a job, each with its transport between nodes.
const PLACES: [(&str, Fabric); 4] = [
    ("one node", Fabric::Shm),
    ("several nodes on one machine", Fabric::Shm),
    ("hosts, by UCX or libfabric", Fabric::Ucx),
    ("hosts, by verbs", Fabric::Verbs),
];

use Capability::*;

/// A situation in which a capability falls back.
pub struct Fallback {
    of: Capability,
    /// The situation, by the setting that makes it.
    pub with: &'static str,
    /// The consequence.
    pub instead: &'static str,
    holds: fn(&Settings, Fabric) -> bool,
}

const LIKE_OTHER: &str = "the range is saved like other memory";

/// All such situations.
static FALLBACKS: [Fallback; 4] = [
    Fallback {
        of: ReadOnly,
        with: "a mode other than raid5 and rs",
        instead: LIKE_OTHER,
        holds: |s, _| !matches!(s.backup_mode, BackupMode::Raid5 | BackupMode::Rs),
    },
    Fallback {
        of: ReadOnly,
        with: "SHMEM_FT_ROLLBACK=none",
        instead: LIKE_OTHER,
        holds: |s, _| s.rollback == Rollback::None,
    },
    Fallback {
        of: ReadOnly,
        with: "SHMEM_FT_STORE",
        instead: LIKE_OTHER,
        holds: |s, _| s.store.is_some(),
    },
    Fallback {
        of: Tracking,
        with: "verbs between hosts",
        instead: "digests find the changes, since a device writes memory without the kernel",
        holds: |_, fabric| fabric == Fabric::Verbs,
    },
];

impl Capability {
    /// All capabilities, in the order of the page, with their names there.
    pub const ALL: [(Capability, &str); 16] = [
        (Global, "global rollback"),
        (Local, "local rollback"),
        (Shrink, "going on with fewer PEs"),
        (ReadOnly, "read-only memory"),
        (Private, "private memory"),
        (Excluded, "excluded memory"),
        (Plan, "a plan"),
        (SharedDisk, "sets on a shared disk"),
        (NodeDisks, "sets on each node's disk"),
        (TwoSnapshots, "two snapshots"),
        (Background, "parity in the background"),
        (Delta, "delta checkpoints"),
        (Tracking, "tracking by pages"),
        (Interval, "an interval"),
        (Scrub, "scrub"),
        (Affinity, "affinity"),
    ];

    /// Returns the situation in which this capability falls back in a job; None if it works.
    pub fn fallback(self, settings: &Settings, fabric: Fabric) -> Option<&'static Fallback> {
        FALLBACKS.iter().find(|row| row.of == self && (row.holds)(settings, fabric))
    }

    /// Requests it by settings. Some are requested by calls of the program.
    fn request(self, settings: &mut Settings) {
        match self {
            Global => settings.rollback = Rollback::Global,
            Local => settings.rollback = Rollback::Local,
            Shrink => {
                (settings.substitute, settings.rollback) = (Substitute::Shrink, Rollback::None);
            }
            ReadOnly | Private | Excluded | Scrub | Affinity => {}
            Plan => settings.plan = Some("plan".to_owned()),
            SharedDisk => settings.store = Some("sets".to_owned()),
            NodeDisks => {
                settings.store = Some("sets".to_owned());
                settings.store_layout = StoreLayout::Local;
            }
            TwoSnapshots => settings.snapshots = 2,
            Background => (settings.background, settings.snapshots) = (Background::On, 2),
            Delta => settings.delta = Delta::On,
            Tracking => settings.track = Track::Pages,
            Interval => settings.interval = Interval::Auto,
        }
    }
}

/// A cell of a table.
enum Cell {
    /// It works.
    Works,
    /// The two are one choice.
    OneOf,
    /// A row of [`CONTRADICTIONS`].
    Refused(usize),
    /// A row of [`FALLBACKS`].
    FallsBack(usize),
}

impl Cell {
    fn of(capabilities: &[Capability], mode: BackupMode, fabric: Fabric) -> Cell {
        let is_choice = |of: &[Capability]| capabilities.iter().filter(|c| of.contains(c)).count();
        if is_choice(&[Global, Local, Shrink]) > 1 || is_choice(&[SharedDisk, NodeDisks]) > 1 {
            return Cell::OneOf;
        }
        let mut settings = Settings { backup_mode: mode, ..Settings::default() };
        capabilities.iter().for_each(|capability| capability.request(&mut settings));
        if let Some(row) = Contradiction::of(&settings) {
            let is_it = |other: &Contradiction| std::ptr::eq(other, row);
            return Cell::Refused(CONTRADICTIONS.iter().position(is_it).unwrap_or(usize::MAX));
        }
        let falls =
            |row: &Fallback| capabilities.contains(&row.of) && (row.holds)(&settings, fabric);
        FALLBACKS.iter().position(falls).map_or(Cell::Works, Cell::FallsBack)
    }

    fn show(&self) -> String {
        match *self {
            Cell::Works => "yes".to_owned(),
            Cell::OneOf => String::new(),
            Cell::Refused(row) => format!("{}", row + 1),
            Cell::FallsBack(row) => char::from(b'a' + row as u8).to_string(),
        }
    }
}

/// Prints the tables of `docs/matrix.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    let names =
        |all: &[&str]| format!("| | {} |\n|{}\n", all.join(" | "), " --- |".repeat(all.len() + 1));
    let row = |name: &str, cells: Vec<Cell>| {
        let cells: Vec<String> = cells.iter().map(Cell::show).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    text.push_str("## In each place\n\n");
    text.push_str(&names(&PLACES.map(|(name, _)| name)));
    for (capability, name) in Capability::ALL {
        let cell = |(_, fabric)| Cell::of(&[capability], BackupMode::Raid5, fabric);
        text.push_str(&row(name, PLACES.map(cell).into()));
    }
    let modes = BackupMode::ALL.into_iter().filter(|mode| mode.protects());
    text.push_str("\n## In each mode\n\n");
    text.push_str(&names(&modes.clone().map(BackupMode::name).collect::<Vec<_>>()));
    for (capability, name) in Capability::ALL {
        let cell = |mode| Cell::of(&[capability], mode, Fabric::Shm);
        text.push_str(&row(name, modes.clone().map(cell).collect()));
    }
    text.push_str("\n## With each other\n\n");
    text.push_str(&names(&Capability::ALL.map(|(_, name)| name)[1..]));
    for (nth, (one, name)) in
        Capability::ALL.into_iter().enumerate().take(Capability::ALL.len() - 1)
    {
        let cell = |(at, (other, _)): (usize, (Capability, &str))| match at > nth {
            true => Cell::of(&[one, other], BackupMode::Raid5, Fabric::Shm),
            false => Cell::OneOf,
        };
        text.push_str(&row(
            name,
            Capability::ALL.into_iter().enumerate().skip(1).map(cell).collect(),
        ));
    }
    text.push_str("\n## Refused\n\n");
    for (nth, row) in CONTRADICTIONS.iter().enumerate() {
        let settings: Vec<String> = row.settings.iter().map(|name| format!("`{name}`")).collect();
        text.push_str(&format!("{}. {}.\n", nth + 1, row.explain(&settings)));
    }
    text.push_str("\n## Falling back\n\n");
    for (nth, row) in FALLBACKS.iter().enumerate() {
        let letter = char::from(b'a' + nth as u8);
        text.push_str(&format!("- **{letter}**: with {}, {}.\n", row.with, row.instead));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each contradiction and each fallback is in some cell: none is left from an earlier time.
    #[test]
    fn each_row_is_in_a_cell() {
        let (mut refused, mut falls) =
            (vec![false; CONTRADICTIONS.len()], [false; FALLBACKS.len()]);
        let mut note = |cell: Cell| match cell {
            Cell::Refused(row) => refused[row] = true,
            Cell::FallsBack(row) => falls[row] = true,
            Cell::Works | Cell::OneOf => {}
        };
        let all = Capability::ALL.map(|(capability, _)| capability);
        for (one, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
            note(Cell::of(&[one, other], BackupMode::Raid5, Fabric::Shm));
            note(Cell::of(&[one, other], BackupMode::Raid5, Fabric::Verbs));
            note(Cell::of(&[one], BackupMode::Double, Fabric::Shm));
            note(Cell::of(&[one], BackupMode::Single, Fabric::Shm));
        }
        // Two rows are about values that are no capability: see the tests of the settings.
        [0, 4].iter().for_each(|&row| refused[row] = true);
        assert!(refused.iter().all(|is_there| *is_there), "{refused:?}");
        assert!(falls.iter().all(|is_there| *is_there), "{falls:?}");
        assert!(CONTRADICTIONS.len() <= 10);
    }
}
