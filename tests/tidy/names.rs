//! One word names one type: where a word once named several, one definition may bear it.
//!
//! Left out: types of tests, of benchmarks and of examples.

use super::{CRATES, File, code_only, expect_none, rust, snippet};

/// Words that each named several types.
const ONCE: &[&str] =
    &["Gate", "Link", "Pe", "Place", "Plan", "Said", "Shape", "State", "Target", "Watch"];

/// The names of the types that are defined at the start of a line: those of modules, not those
/// that a trait or a function has for itself.
fn defined(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let name = |line: &str| {
        // A visibility is at most two words: `pub(in crate::world)`.
        let all: Vec<&str> = line.split_whitespace().collect();
        let kind = all.iter().take(3).position(|word| kinds.contains(word))?;
        let part = |c: &char| c.is_alphanumeric() || *c == '_';
        let before = all[..kind].concat();
        let name = all.get(kind + 1).filter(|_| before.is_empty() || before.starts_with("pub"))?;
        Some(name.chars().take_while(part).collect())
    };
    code.lines().filter(|line| !line.starts_with(' ')).filter_map(name).collect()
}

/// What is wrong with the names in `files`.
fn doubled(files: &[File]) -> Vec<String> {
    let has = |name: &&str, file: &&File| defined(file).iter().any(|defined| defined == name);
    let places = |name: &&str| -> Vec<&str> {
        files.iter().filter(|file| has(name, file)).map(|file| file.path.as_str()).collect()
    };
    let all = ONCE.iter().map(|name| (name, places(name)));
    let wrong = all.filter(|(_, places)| places.len() > 1);
    wrong.map(|(name, places)| format!("{name} names a type in {}", places.join(", "))).collect()
}

#[test]
fn a_word_names_one_type() {
    let shipped = rust(CRATES).into_iter().filter(|file| !file.path.ends_with("tests.rs"));
    expect_none(doubled(&shipped.collect::<Vec<_>>()));
}

#[test]
fn words_of_two_types_are_found() {
    let one =
        snippet("pub struct Gate(u8);\n    struct Link;\nuse a::Link;\nfn f(gate: Gate) {}\n");
    assert_eq!(defined(&one), ["Gate"]);
    let two = snippet("pub(in crate::a) enum Gate {\n}\ntype Link = u8;\n");
    assert_eq!(defined(&two), ["Gate", "Link"]);
    assert_eq!(doubled(&[one, two]).len(), 1);
}
