//! Messages: each one that reaches a user is explained in `docs/errors.md`.

use std::collections::BTreeSet;

use super::code::quoted_end;
use super::files::{CRATES, File, expect_none, page, rust};

/// String literals that reach a user: the first in each of these calls and attributes.
const SPEAKING: &[&str] =
    &["#[error(", "misuse(", "abort(", "complain(", "fail(", " say(", "words = format!("];

/// Returns the longest piece without a placeholder of each message in a source.
fn messages(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for call in SPEAKING {
        for (at, _) in text.match_indices(call) {
            let rest = &text[at + call.len()..];
            let stop = rest.find([';', '}']).unwrap_or(rest.len());
            let Some(open) = rest.find('"').filter(|&open| open < stop) else { continue };
            let end = quoted_end(rest.as_bytes(), open, b'"');
            found.extend(longest_piece(&rest[open + 1..end - 1]));
        }
    }
    found
}

fn longest_piece(literal: &str) -> Option<String> {
    let joined: Vec<&str> = literal.split("\\\n").map(str::trim_start).collect();
    let joined = joined.concat().replace("\\n", "");
    let pieces = joined.split('{').flat_map(|part| part.rsplit('}').next());
    let longest = pieces.map(str::trim).max_by_key(|piece| piece.len())?;
    (longest.len() >= 8 && longest.contains(' ')).then(|| longest.to_owned())
}

#[test]
fn every_message_is_explained() {
    let explained = page("docs/errors.md");
    let explained: Vec<&str> = explained.split_whitespace().collect();
    let explained = explained.join(" ").replace("\\|", "|"); // a bar inside a table
    let silent = |file: &File| -> Vec<String> {
        let missing = messages(&file.text).into_iter().filter(|text| !explained.contains(text));
        missing.map(|text| format!("docs/errors.md lacks `{text}` ({})", file.path)).collect()
    };
    expect_none(rust(CRATES).iter().flat_map(silent).collect());
}

#[test]
fn messages_are_found_in_attributes_and_calls() {
    let text = "#[error(\n    \"-n {n}: no space \\\n     for that {}\", show(n)\n)]\n
        world.abort(&format!(\"PE {pe} is gone for good\"));
        #[error(\"{0}\")] misuse(call, \"this PE holds the lock\")";
    let found: BTreeSet<String> = messages(text).into_iter().collect();
    let wanted = [": no space for that", "is gone for good", "this PE holds the lock"];
    assert_eq!(found, wanted.map(str::to_owned).into());
}
