//! The stripe map as a picture: the location of each chunk, and the PE that holds its parity.
//!
//! A column is a PE, a row a stripe. Each stripe has one color; parity is drawn solid.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use raidshmem_codec::stripe::{Layout, Scheme, Stripe};
use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::Pe;
use raidshmem_core::settings::BackupMode;

use crate::event::What;
use crate::record::Record;
use crate::story::Recovery;
use crate::words::count;

/// The group size from which cells are small and have no text.
const SMALL: usize = 12;
/// Maximum number of groups listed.
const LISTED: usize = 24;
/// Colors of consecutive stripes.
const COLOURS: usize = 6;

/// The role of a column's PE in a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    Adopted,
    Read,
    None,
}

impl Fate {
    /// Returns the class of its column, and the word below its number.
    const fn shown(self) -> (&'static str, &'static str) {
        match self {
            Fate::Lost => ("lost", "rebuilt"),
            Fate::Adopted => ("adopted", "adopted"),
            Fate::Read => ("read", "read"),
            Fate::None => ("", ""),
        }
    }
}

fn scheme(record: &Record) -> Option<Scheme> {
    let mode = BackupMode::ALL.into_iter().find(|mode| mode.name() == record.job.mode)?;
    mode.scheme(record.job.parity as usize)
}

/// Shows the groups, and the map of one of them.
pub fn groups(record: &Record) -> Markup {
    let groups = &record.job.groups;
    let first = groups.first().filter(|_| scheme(record).is_some());
    html! {
        section #groups {
            h2 { "Protection" }
            @match first {
                None => p { "Mode none: no checkpoint is kept, and a death ends the job." },
                Some(first) => {
                    div.side-by-side {
                        div {
                            @if let Some(survives) = &record.job.survives {
                                p { "Mode " b { (record.job.mode) } ": " (survives) "." }
                            }
                            (explanation(record))
                            (listed(record))
                        }
                        (map(record, 0, first, None))
                    }
                }
            }
        }
    }
}

fn listed(record: &Record) -> Markup {
    let groups = &record.job.groups;
    html! {
        ul.plain {
            @for (number, group) in groups.iter().enumerate().take(LISTED) {
                @let pes = Pe::names(&sorted(group));
                li { b { "Group " (number) } ": " (pes) (nodes(record, group)) }
            }
            @if groups.len() > LISTED { li.muted { "and " (groups.len() - LISTED) " more" } }
        }
    }
}

fn sorted(group: &[Pe]) -> Vec<Pe> {
    let mut all = group.to_vec();
    all.sort_unstable();
    all
}

fn nodes(record: &Record, group: &[Pe]) -> String {
    let of = |pe: &Pe| record.job.node_of.get(pe.at()).copied();
    let nodes: BTreeSet<u32> = group.iter().filter_map(of).collect();
    let names = nodes.iter().filter_map(|&node| record.job.nodes.get(node as usize));
    let names: Vec<&str> = names.take(8).map(String::as_str).collect();
    let more = if nodes.len() > names.len() { " and others" } else { "" };
    format!(", on {}{more}", names.join(", "))
}

fn explanation(record: &Record) -> Markup {
    let mirror = matches!(scheme(record), Some(Scheme::Mirror));
    html! {
        p {
            @if mirror {
                "A column is a PE, and a row the memory of one of them: its data, and the PE that \
                 holds the copy."
            } @else {
                "A column is a PE, and a row a stripe: a chunk of the checkpoint of each PE that \
                 has data in it (d), and the parity over them (P) on a PE that has none. What is \
                 lost of a row is computed from the rest of it."
            }
        }
    }
}

/// Returns true if parity groups had changed before a recovery. The record has the places of the
/// members in the groups of the start only.
fn has_new_groups(record: &Record, recovery: &Recovery) -> bool {
    record.events.iter().any(|event| {
        event.time <= recovery.begin
            && matches!(event.what, What::Report(ProgressReport::Regrouped { .. }))
    })
}

/// Shows the maps of the groups that lost a PE.
pub fn of_recovery(record: &Record, recovery: &Recovery) -> Markup {
    if has_new_groups(record, recovery) {
        let why =
            "The parity groups had changed before this loss: there is no map of the new ones.";
        return html! { p.muted { (why) } };
    }
    let lost: BTreeSet<Pe> = recovery.lost().into_iter().collect();
    let hit = record.job.groups.iter().enumerate();
    let hit: Vec<_> = hit.filter(|(_, group)| group.iter().any(|pe| lost.contains(pe))).collect();
    let more = hit.len().saturating_sub(2);
    html! {
        @for (number, group) in hit.into_iter().take(2) {
            (map(record, number, group, Some(recovery)))
        }
        @if more > 0 { p.muted { (more) " more groups lost PEs." } }
    }
}

fn fates(group: &[Pe], recovery: Option<&Recovery>) -> BTreeMap<Pe, Fate> {
    let Some(recovery) = recovery else { return BTreeMap::new() };
    let lost = recovery.lost();
    let read: BTreeSet<Pe> =
        recovery.back.values().flat_map(|back| back.from.iter().flatten().copied()).collect();
    let fate = |pe: &Pe| match recovery.back.get(pe) {
        _ if !lost.contains(pe) => {
            if read.contains(pe) {
                Fate::Read
            } else {
                Fate::None
            }
        }
        Some(back) if back.from_disk => Fate::None,
        Some(back) if back.from.is_none() => Fate::Adopted,
        _ => Fate::Lost,
    };
    group.iter().map(|pe| (*pe, fate(pe))).collect()
}

fn map(record: &Record, number: usize, group: &[Pe], recovery: Option<&Recovery>) -> Markup {
    let layout = scheme(record).and_then(|scheme| Layout::new(scheme, group.len()).ok());
    let Some(layout) = layout else {
        let why = format!("Group {number} has no map: its shape does not fit this mode.");
        return html! { p.muted { (why) } };
    };
    let fates = fates(group, recovery);
    let what = description(number, group, &layout, &fates);
    let small = group.len() > SMALL;
    let (wide, high, left, top) = if small { (18, 16, 26, 22) } else { (58, 30, 30, 40) };
    let (columns, rows) = (group.len(), layout.stripes().len());
    let (width, height) = (left + columns * wide + 2, top + rows * high + 2);
    let fate = |pe: &Pe| fates.get(pe).copied().unwrap_or(Fate::None);
    let columns_of = columns_of(group);
    html! {
        figure.map {
            div.scroll tabindex="0" role="group" aria-label="stripe map" {
                svg viewBox=(format!("0 0 {width} {height}")) style=(format!("width:{width}px"))
                    role="img" aria-label=(what) {
                    @for (pe, column) in group.iter().zip(&columns_of) {
                        @let x = left + column * wide;
                        (head(*pe, fate(pe), (x, wide, high * rows + top), small))
                    }
                    @for (row, stripe) in layout.stripes().iter().enumerate() {
                        @let y = top + row * high;
                        text.row x=(left - 8) y=(y + high / 2 + 4) text-anchor="end" {
                            (letter(row))
                        }
                        @for (member, cell) in cells(stripe, group) {
                            (draw(&cell, fate(&group[member]), row % COLOURS,
                                [left + columns_of[member] * wide, y, wide, high], small))
                        }
                    }
                }
            }
            figcaption { (what) }
        }
    }
}

/// Returns the column of each member: columns are in the order of the PEs.
fn columns_of(group: &[Pe]) -> Vec<usize> {
    group.iter().map(|pe| group.iter().filter(|other| *other < pe).count()).collect()
}

/// Returns `A` to `Z`, then numbers.
fn letter(row: usize) -> String {
    match u8::try_from(row) {
        Ok(row @ 0..26) => char::from(b'A' + row).to_string(),
        _ => row.to_string(),
    }
}

fn head(pe: Pe, fate: Fate, (x, wide, bottom): (usize, usize, usize), small: bool) -> Markup {
    let (class, word) = fate.shown();
    let middle = x + wide / 2;
    html! {
        @if fate != Fate::None {
            rect class=(format!("column {class}")) x=(x + 1) y="1" width=(wide - 2)
                height=(bottom) rx="4" {}
        }
        text.head x=(middle) y="16" text-anchor="middle" { @if !small { "PE " } (pe) }
        @if !small { text.mark x=(middle) y="31" text-anchor="middle" { (word) } }
    }
}

/// A chunk or a parity.
struct Cell {
    text: String,
    words: String,
    is_parity: bool,
}

/// Returns the cells of a stripe with the members that hold them.
fn cells(stripe: &Stripe, group: &[Pe]) -> Vec<(usize, Cell)> {
    let of: Vec<Pe> = stripe.data.iter().map(|data| group[data.member]).collect();
    let data = stripe.data.iter().map(|data| {
        let words = format!("chunk {} of PE {}", data.chunk, group[data.member]);
        (data.member, Cell { text: format!("d{}", data.chunk), words, is_parity: false })
    });
    let parity = stripe.parity.iter().enumerate().map(|(row, parity)| {
        let (over, holder) = (Pe::names(&of), group[parity.member]);
        let title = format!("parity {row} over {over}, which PE {holder} holds");
        let text = if stripe.parity.len() > 1 { format!("P{row}") } else { "P".to_owned() };
        (parity.member, Cell { text, words: title, is_parity: true })
    });
    data.chain(parity).collect()
}

fn draw(cell: &Cell, fate: Fate, colour: usize, place: [usize; 4], small: bool) -> Markup {
    let [x, y, wide, high] = place;
    let kind = if cell.is_parity { "parity" } else { "data" };
    let class = format!("cell {kind} stripe-{colour}");
    let gap = if small { 1 } else { 4 };
    html! {
        g {
            title { (cell.words) @if fate == Fate::Lost { ", lost" } }
            rect class=(class) x=(x + gap) y=(y + gap / 2) width=(wide - 2 * gap)
                height=(high - gap) rx="3" {}
            @if fate == Fate::Lost {
                rect.cross x=(x + gap) y=(y + gap / 2) width=(wide - 2 * gap) height=(high - gap)
                    rx="3" {}
            }
            @if !small {
                text class=(format!("cell {kind}")) x=(x + wide / 2) y=(y + high / 2 + 4)
                    text-anchor="middle" { (cell.text) }
            }
        }
    }
}

/// Describes the map in words.
fn description(number: usize, group: &[Pe], layout: &Layout, fates: &BTreeMap<Pe, Fate>) -> String {
    let of = |fate: Fate| -> Vec<Pe> {
        fates.iter().filter(|(_, other)| **other == fate).map(|(pe, _)| *pe).collect()
    };
    let mut words = format!(
        "Group {number}: {} in {}",
        Pe::names(&sorted(group)),
        count(layout.stripes().len() as u64, "stripe")
    );
    let (lost, adopted, read) = (of(Fate::Lost), of(Fate::Adopted), of(Fate::Read));
    if !lost.is_empty() {
        words += &format!("; {} lost all chunks and parities", Pe::names(&lost));
    }
    if !read.is_empty() {
        words += &format!(", made again from those of {}", Pe::names(&read));
    }
    if !adopted.is_empty() {
        words += &format!("; memory of {} was adopted as it was", Pe::names(&adopted));
    }
    words + "."
}
