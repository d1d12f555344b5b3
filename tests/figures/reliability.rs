//! The chance of an unrecoverable loss by simulation, with groups kept and with new groups, and by
//! the closed form: values for the table of the paper.

use std::fmt::Write as _;

use raidshmem_core::placement::Domains;
use raidshmem_core::placement::domains::{DomainKind, Source};
use raidshmem_core::settings::{BackupMode, Settings};
use raidshmem_core::sizing::reliability::{Reliability, SimulatedYears};

use super::paper::{self, GROUP, odds, quoted, thousands};

const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.0 * DAY;
/// Average life of a node, and of a whole rack, in years.
const LIFE: f64 = paper::YEARS;
const RACK_LIFE: f64 = 20.0;
/// Nodes of a rack, and days until a lost node is back.
const RACK: usize = 4;
const REPAIR: f64 = 7.0;
const PARITY: usize = 1;
const RECOVERY: f64 = 60.0;

/// One row: a PE for each node.
struct Row {
    nodes: usize,
    spares: usize,
    racks: bool,
    /// Years that are simulated.
    years: usize,
}

const fn row(nodes: usize, spares: usize, racks: bool, years: usize) -> Row {
    Row { nodes, spares, racks, years }
}

const ROWS: [Row; 5] = [
    row(8, 0, false, 8_000),
    row(8, 1, false, 8_000),
    row(8, 2, false, 8_000),
    row(64, 0, true, 500),
    row(64, 4, true, 500),
];

impl Row {
    fn site(&self, heals: bool) -> Reliability {
        let all = self.nodes + self.spares;
        let racks = all.div_ceil(RACK);
        let kind = DomainKind {
            name: "rack".to_owned(),
            domains: (0..racks).map(|rack| format!("rack{rack}")).collect(),
            of: (0..all).map(|node| node / RACK).collect(),
            source: Source::User,
        };
        let kinds = self.racks.then_some(kind).into_iter().collect();
        let settings = Settings {
            backup_mode: BackupMode::Rs,
            parity: PARITY,
            group_size: Some(GROUP),
            ..Settings::default()
        };
        Reliability {
            settings,
            domains: Domains::default().with_kinds(kinds),
            pes: self.nodes,
            nodes: self.nodes,
            spares: self.spares,
            life: LIFE * YEAR,
            domain_life: self.racks.then_some(RACK_LIFE * YEAR),
            repair: Some(REPAIR * DAY),
            recovery: RECOVERY,
            heals,
        }
    }

    /// Returns the chance by the closed form, which knows no racks and always has a spare.
    fn closed(&self) -> f64 {
        paper::chance(self.nodes, PARITY, RECOVERY)
    }
}

/// Prints the chance of an outcome, or an upper bound if nothing was lost.
fn chance(of: &SimulatedYears) -> String {
    match of.ends {
        0 => format!("< {}", odds(of.bound())),
        _ => odds(of.chance()),
    }
}

/// Returns the rows as a value of Typst.
pub fn reliability() -> String {
    let mut rows = String::new();
    for (seed, row) in (1..).zip(&ROWS) {
        let of = |heals| row.site(heals).simulate(seed, row.years, YEAR);
        let (kept, healed) = (of(false), of(true));
        let share = |of: &SimulatedYears| odds(of.exposed / of.seconds);
        let _ = writeln!(
            rows,
            "    (nodes: {}, spares: {}, racks: {}, years: {}, losses: {}, kept: {}, healed: {}, \
             exposed: {}, after: {}, closed: {}),",
            row.nodes,
            row.spares,
            row.racks,
            quoted(&thousands(row.years)),
            quoted(&thousands(healed.losses)),
            quoted(&chance(&kept)),
            quoted(&chance(&healed)),
            quoted(&share(&kept)),
            quoted(&share(&healed)),
            quoted(&odds(row.closed())),
        );
    }
    format!(
        "(\n  rows: (\n{rows}  ),\n  life: {LIFE}, rack-life: {RACK_LIFE}, rack: {RACK}, repair: \
         {REPAIR}, group: {GROUP}, recovery: {RECOVERY},\n)"
    )
}
