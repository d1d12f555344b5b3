//! The settings as human-readable text, and suggestions for misspelled names.

use super::table::{Setting, Settings, table};
use crate::spelling::{self, likeness};

/// Formats the settings as a Markdown table, one row each.
pub fn markdown() -> String {
    let mut text = String::from("| setting | allowed | default | what it does | why change it |\n");
    text.push_str("| --- | --- | --- | --- | --- |\n");
    for e in table() {
        let (name, allowed, default, doc, why) =
            (e.name, e.allowed(), e.default(), e.doc, e.reason);
        text.push_str(&format!("| `{name}` | {allowed} | {default} | {doc} | {why} |\n"));
    }
    text
}

/// Lists every setting with its value in force and its description, one per line. `chosen` has
/// names and values of settings that the library chooses.
pub fn in_force(settings: &Settings, chosen: &[(&'static str, String)]) -> String {
    let width = table().iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let line = |entry: &Setting| {
        let choice = chosen.iter().find(|(name, _)| *name == entry.name);
        let value = match (entry.show(settings), choice) {
            (Some(value), Some((_, choice))) if value == *choice => value,
            (Some(value), Some((_, choice))) => format!("{value} ({choice})"),
            (None, Some((_, choice))) => choice.clone(),
            (Some(value), None) => value,
            (None, None) => entry.default(),
        };
        format!("{:<width$}  {value:<12}  {}\n", entry.name, entry.doc)
    };
    table().iter().map(line).collect()
}

/// Returns the most similar allowed `SHMEM_FT_*` name; the first if several are equally similar.
pub(super) fn nearest(name: &str) -> &'static str {
    let names = table().iter().map(|entry| entry.name).filter(|name| name.starts_with(PREFIX));
    spelling::nearest(names, |known| alike(name, known), 0.0).unwrap_or_default()
}

const PREFIX: &str = "SHMEM_FT_";

/// Returns the similarity of two names from 0 to 1: letter by letter or, if words were left out, by
/// the words present.
fn alike(name: &str, known: &str) -> f64 {
    let words = |text: &'_ str| {
        let words = text.trim_start_matches(PREFIX).split('_').map(str::to_owned);
        words.collect::<Vec<String>>()
    };
    let (words, of_known) = (words(name), words(known));
    let best = |word: &String| of_known.iter().map(|w| likeness(word, w)).fold(0.0, f64::max);
    let by_words = words.iter().map(best).sum::<f64>() / words.len() as f64;
    likeness(name, known).max(0.95 * by_words)
}
