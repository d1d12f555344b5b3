//! The record of a job as one HTML page, which needs no network and no script.
//!
//! Invariants: user-supplied text (names of programs, hosts and nodes, lines) never becomes markup:
//! `maud` escapes everything except the style sheet. Every picture has a textual equivalent. A
//! large job has a page of bounded length, with a note for whatever is cut.
//!
//! ```text
//! scale      coordinates of time and share   summary    verdict, figures, time breakdown
//! lanes      PEs over time                   recovery   each loss: steps taken, and the map
//! map        parity owners of each PE        facts      checkpoints, memory, lines, settings
//! ```

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::record::Record;
use crate::story::Story;

mod facts;
mod lanes;
mod map;
mod recovery;
mod scale;
mod summary;

/// Maximum number of recoveries shown in full.
const RECOVERIES: usize = 12;

/// Renders the page of a record.
pub fn page(record: &Record) -> String {
    let story = Story::of(record);
    let title = format!("{} - report of a job", record.job.program);
    // The page loads nothing, whatever its text contains.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                (lanes::patterns())
                main {
                    (summary::header(record, &story))
                    (summary::figures(record, &story))
                    (summary::time_section(record))
                    (lanes::timeline(record, &story))
                    (map::groups(record))
                    (recoveries(record, &story))
                    (facts::checkpoints(record))
                    (facts::memory(record))
                    (facts::lines(record))
                    (facts::settings(record))
                }
                footer {
                    "Made by oshreport of raidshmem " (env!("CARGO_PKG_VERSION"))
                    " from a report of " (record.job.raidshmem) "."
                }
            }
        }
    };
    page.into_string()
}

fn recoveries(record: &Record, story: &Story) -> Markup {
    let shown = story.recoveries.iter().enumerate().take(RECOVERIES);
    let more = story.recoveries.len().saturating_sub(RECOVERIES);
    html! {
        @for (number, recovery) in shown {
            (recovery::section(record, number + 1, recovery))
        }
        @if more > 0 {
            p.muted { (more) " more recoveries are in the time line and in what oshrun said." }
        }
    }
}

#[cfg(test)]
mod tests;
