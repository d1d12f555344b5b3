//! Type names: a word names one type in a crate, and some words one type in all of them. And a PE
//! and a tile have their own types, which no bare number replaces.
//!
//! Left out: types of tests, of benchmarks and of examples.

use std::collections::BTreeMap;

use super::code::{code_only, line_of, words};
use super::files::{CRATES, File, expect_none, rust, snippet};
use super::pure::test_modules;

/// Folders whose types may have the names of the types that they model, and why.
const MIRRORS: &[(&str, &str)] = &[
    ("crates/core/src/protocol/explore/", "a model for the explorer, in the words of its machine"),
    ("crates/core/src/replay/explore/", "the same"),
    ("src/capi/", "the C interface, in the words of the specification"),
    ("src/shmem/", "the safe interface, in the words of the model that it wraps"),
];

/// Words that name one type in all crates.
const ONCE: &[&str] = &[
    "Entry", "Found", "Gate", "Job", "Link", "Memory", "Part", "Pe", "Place", "Plan", "Progress",
    "Said", "Shape", "Site", "State", "Step", "Target", "Watch", "Way",
];

/// Files and folders in which a PE or a tile may be a bare number, and why.
const BARE: &[(&str, &str)] = &[
    ("crates/archive/src/tiles.rs", "a tile of a file, not of memory"),
    ("crates/disk/src/", "the same"),
    ("src/shmem/", "the interface for programs, which count in `usize`"),
];

/// Returns the names of the types defined at the start of a line, and whether other files see them:
/// those of modules, not those local to a trait or a function.
fn defined(file: &File) -> Vec<(String, bool)> {
    let code = code_only(&file.text);
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let name = |line: &str| {
        // A visibility is at most two words: `pub(in crate::world)`.
        let all: Vec<&str> = line.split_whitespace().collect();
        let kind = all.iter().take(3).position(|word| kinds.contains(word))?;
        let part = |c: &char| c.is_alphanumeric() || *c == '_';
        let before = all[..kind].concat();
        let name = all.get(kind + 1).filter(|_| before.is_empty() || before.starts_with("pub"))?;
        Some((name.chars().take_while(part).collect(), !before.is_empty()))
    };
    code.lines().filter(|line| !line.starts_with(' ')).filter_map(name).collect()
}

/// Returns complaints about names in `files` that other files see or that are in [`ONCE`].
fn doubled(files: &[File]) -> Vec<String> {
    let once = |name: &String| ONCE.contains(&name.as_str());
    let mirror = |file: &&File| MIRRORS.iter().any(|(folder, _)| file.path.starts_with(folder));
    let mut places: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for file in files {
        let own = CRATES.iter().find(|root| file.path.starts_with(&format!("{root}/")));
        for (name, seen) in defined(file) {
            let within = if once(&name) { "all crates" } else { own.copied().unwrap_or_default() };
            if once(&name) || seen && !mirror(&file) {
                places.entry((name, within)).or_default().push(&file.path);
            }
        }
    }
    let wrong = places.into_iter().filter(|(_, places)| places.len() > 1);
    wrong
        .map(|((name, _), places)| format!("{name} names a type in {}", places.join(", ")))
        .collect()
}

/// Returns a source's parameters and fields that hold a PE or a tile as a bare number.
fn bare(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for name in ["pe", "tile"] {
        for at in words(code, name) {
            let (before, after) = (&code[..at], &code[at + name.len()..]);
            // A parameter, or the first of several in a tuple.
            let names = after.split(')').next().unwrap_or_default();
            let tuple = before.ends_with('(') && names.starts_with(", ") && !names.contains(':');
            let kind = after[names.len()..].strip_prefix("): (").filter(|_| tuple);
            let kind = kind.or_else(|| after.strip_prefix(": ")).unwrap_or_default();
            let kind = kind.trim_start_matches('&').trim_start_matches("Option<");
            let kind = kind.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if ["usize", "u64", "u32", "u16"].contains(&kind) {
                let line = line_of(code, at);
                found.push(format!("{}:{line}: `{name}` is a bare {kind}", file.path));
            }
        }
    }
    found
}

#[test]
fn a_pe_and_a_tile_are_no_bare_numbers() {
    let all = rust(CRATES);
    let tests: Vec<String> = all.iter().flat_map(|f| test_modules(&f.path, &f.text)).collect();
    let shipped = all.iter().filter(|f| !tests.iter().any(|test| f.path.starts_with(test)));
    let allowed = |file: &File| BARE.iter().find(|(path, _)| file.path.starts_with(path));
    let (excused, others): (Vec<&File>, Vec<&File>) =
        shipped.partition(|file| allowed(file).is_some());
    let mut wrong: Vec<String> = others.into_iter().flat_map(bare).collect();
    let used = |path: &str| {
        excused.iter().any(|file| file.path.starts_with(path) && !bare(file).is_empty())
    };
    let stale = BARE.iter().filter(|(path, _)| !used(path));
    wrong.extend(stale.map(|(path, _)| format!("BARE: {path} has none")));
    expect_none(wrong);
}

#[test]
fn a_word_names_one_type() {
    let shipped = rust(CRATES).into_iter().filter(|file| !file.path.ends_with("tests.rs"));
    expect_none(doubled(&shipped.collect::<Vec<_>>()));
}

#[test]
fn bare_numbers_are_found() {
    for code in [
        "fn f(pe: usize) {}",
        "fn f(a: u8, tile: &usize) {}",
        "struct A { pe: Option<u32> }",
        "fn f((pe, node): (usize, u32)) {}",
    ] {
        assert_eq!(bare(&snippet(code)).len(), 1, "{code}");
    }
    let tuples = "for (pe, now) in a {}\nfn f((a, b): (usize, u32)) {}";
    for code in [tuples, "fn f(pe: Pe) {}", "fn f(pes: usize) {}", "f(pe, tile)", "// pe: usize"] {
        assert_eq!(bare(&snippet(code)), [""; 0], "{code}");
    }
}

#[test]
fn words_of_two_types_are_found() {
    let here = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let names = |file: &File| defined(file).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let one = "pub struct Gate(u8);\n    struct Link;\nuse a::Link;\nfn f(gate: Gate) {}\n";
    assert_eq!(names(&snippet(one)), ["Gate"]);
    let two = "pub(in crate::a) enum Gate {\n}\ntype Link = u8;\n";
    assert_eq!(names(&snippet(two)), ["Gate", "Link"]);
    let both = |a: &str, b: &str| doubled(&[here(a, one), here(b, two)]).len();
    assert_eq!(both("src/a.rs", "crates/core/src/b.rs"), 1, "a word of all crates");
    let both = |a: &str, b: &str, first: &str, second: &str| {
        doubled(&[here(a, first), here(b, second)]).len()
    };
    let (shared, own) = ("pub(crate) struct Lorry;", "struct Lorry;");
    assert_eq!(both("src/a.rs", "src/b.rs", shared, shared), 1);
    assert_eq!(both("src/a.rs", "src/b.rs", shared, own), 0, "nobody else sees it");
    assert_eq!(both("src/a.rs", "codec/src/b.rs", shared, shared), 0, "another crate");
    assert_eq!(both("src/a.rs", "src/shmem/b.rs", shared, shared), 0, "it stands for the other");
}
