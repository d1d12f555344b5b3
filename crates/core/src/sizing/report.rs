//! The output of `oshinfo plan`: a table of candidates, and recommended settings.

use std::fmt;

use super::lost_node::AfterLoss;
use super::second::SecondLevel;
use super::{Candidate, Choice, SizingInput};

const GIB: f64 = (1u64 << 30) as f64;

/// Formats seconds in a suitable unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Formats a share as a percentage, with enough digits to differ from 0.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        p if p >= 0.1 => format!("{p:.1} %"),
        p if p >= 0.001 => format!("{p:.3} %"),
        0.0 => "0 %".to_owned(),
        p => format!("{p:.0e} %"),
    }
}

/// Formats an expected number, with two digits at least.
fn number(number: f64) -> String {
    match number {
        n if n >= 10.0 => format!("{n:.0}"),
        n if n >= 0.01 => format!("{n:.2}"),
        n => format!("{n:.0e}"),
    }
}

fn row(candidate: &Candidate, mark: char) -> String {
    let Candidate { mode, group, parity, memory, .. } = candidate;
    format!(
        "{mark} {:<7} {group:>5} {parity:>7} {memory:>7.2} {:>11} {:>10} {:>9} {:>8} {:>13}{}",
        mode.name(),
        time(candidate.checkpoint),
        time(candidate.interval),
        share(candidate.lost),
        time(candidate.recovery),
        share(candidate.chance),
        if candidate.possible { "" } else { "  not possible" }
    )
}

impl Candidate {
    /// Returns the settings that request it, by name.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let size = self.size.map(|size| ("SHMEM_FT_GROUP_SIZE", size.to_string()));
        let parity = (self.parity > 1).then(|| ("SHMEM_FT_PARITY", self.parity.to_string()));
        let seconds = self.interval.round().clamp(1.0, 86_400.0);
        let mut settings = vec![("SHMEM_FT_BACKUP_MODE", self.mode.name().to_owned())];
        settings.extend(size.into_iter().chain(parity));
        settings.push(("SHMEM_FT_INTERVAL", seconds.to_string()));
        settings
    }
}

/// A choice, with the input that it was made for.
pub struct Report<'a>(pub &'a SizingInput, pub &'a Choice);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report(site, choice) = self;
        writeln!(
            f,
            "{} PEs on {} nodes, {:.2} GiB live in each PE; a node is lost every {}\n\
             link {:.1} GB/s a node, copy {:.1} GB/s a node, a loss is noticed after {}\n",
            site.pes,
            site.nodes,
            site.live / GIB,
            time(site.mtbf),
            site.link / 1e9,
            site.copy / 1e9,
            time(site.detection)
        )?;
        writeln!(
            f,
            "  mode    group  parity  memory  checkpoint   interval      lost recovery \
             unrecoverable"
        )?;
        for (index, candidate) in choice.candidates.iter().enumerate() {
            let mark = if choice.best == Some(index) { '*' } else { ' ' };
            writeln!(f, "{}", row(candidate, mark))?;
        }
        writeln!(
            f,
            "\nmemory: times the live bytes. lost: share of the time for checkpoints, recoveries\n\
             and repeated work. unrecoverable: chance within 30 days that more is lost than\n\
             the parity.\n"
        )?;
        match choice.best.map(|best| &choice.candidates[best]) {
            None => {
                writeln!(f, "no mode survives the loss of a node here within the memory there is")
            }
            Some(best) => {
                if !choice.safe {
                    writeln!(f, "no mode keeps the chance below {}:", share(site.risk))?;
                }
                let settings = best.settings().into_iter();
                let settings: Vec<String> = settings.map(|(n, v)| format!("{n}={v}")).collect();
                writeln!(f, "export {}", settings.join(" "))?;
                writeln!(f, "recommended interval: {}", time(best.interval))?;
                if let Some(after) = AfterLoss::of(site, best) {
                    writeln!(f, "{after}")?;
                }
                if let Some(level) = SecondLevel::of(site, best) {
                    let SecondLevel { write, interval, falls, cost } = level;
                    writeln!(
                        f,
                        "SHMEM_FT_STORE, SHMEM_FT_STORE_EVERY={interval:.0}s: {} to write a set; \
                         {} falls\nback to disk within 30 days, each of which costs {}",
                        time(write),
                        number(falls),
                        time(cost)
                    )?;
                }
                writeln!(
                    f,
                    "SHMEM_FT_ROLLBACK=local takes up to {:.2} GiB more in each PE for its log, or \
                     SHMEM_FT_LOG_LIMIT",
                    site.live / 4.0 / GIB
                )
            }
        }
    }
}
