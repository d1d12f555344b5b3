//! Comments in plain English.
//!
//! A comment opens with a verb (a function) or a noun (anything else), never with a noun clause,
//! and names its subject. [`PHRASES`] lists turns of phrase that a native reader stumbles over.
//!
//! Left out: strings and documents, which are read by people before they are printed.

use super::files::{File, expect_none, snippet, sources};

/// Words that open no comment.
const OPENINGS: &[&str] = &["What", "Which", "Whether", "Who", "Whom", "Whose", "That", "How"];

/// Phrases, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("it is none", "there is no .., has no .."),
    ("that is none", "that is not a .., an invalid .."),
    ("does the same", "name what is repeated"),
    ("is told", "is notified, receives"),
    ("is said", "is reported, is printed"),
    ("says so", "reports it"),
    ("nobody", "no PE, no process"),
    ("who does", "a PE that does"),
    ("who has", "a PE that has"),
    ("who is", "a PE that is"),
    ("who waits", "a PE that waits"),
    ("can be had", "if available"),
    ("is to be", "must be, will be"),
    ("are to be", "must be, will be"),
    ("comes back", "restarts, is restored"),
    ("all are back", "all PEs have resumed"),
    ("go back", "roll back"),
    ("goes back", "rolls back"),
    ("goes on", "continues"),
    ("gives back", "releases, returns"),
    ("is heard", "is received, arrives"),
    ("beside", "next to, in addition to"),
    ("for ever", "forever"),
    ("somebody", "a PE, a process"),
];

/// Returns the comment lines of a file that match, each with the advice.
fn matches(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        let opening = text.split(' ').next().unwrap_or_default();
        let clause = OPENINGS.contains(&opening) && text != opening;
        let advice = clause.then_some("open with a verb or a noun");
        let lower = text.to_lowercase();
        let phrase = PHRASES.iter().find(|(phrase, _)| has(&lower, phrase)).map(|found| found.1);
        if let Some(advice) = advice.or(phrase) {
            found.push(format!("{}:{}: {advice}: {text}", file.path, number + 1));
        }
    }
    found
}

/// Returns true if `text` has `phrase` as whole words.
fn has(text: &str, phrase: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        !letter(before.chars().next_back()) && !letter(after.chars().next())
    })
}

#[test]
fn comments_are_plain_english() {
    expect_none(sources().iter().flat_map(matches).collect());
}

#[test]
fn phrases_are_found_as_words_of_comments() {
    let lines = |text: &str| matches(&snippet(text)).len();
    assert_eq!(lines("/// What it gives back.\n//! Which of them.\n    // Who waits.\n"), 3);
    assert_eq!(lines("/// Returns what is left.\nlet what = \"What is none\";\n"), 0);
    assert_eq!(lines("/// As nobody knows, it is said to be so.\n"), 1);
    assert_eq!(lines("/// Whatever follows; nonesuch; is nonetheless there.\n"), 0);
}
