//! Guarantees of `docs/guarantees.md`: the code or test behind each, and the rules broken on
//! purpose.

use std::path::Path;

use super::files::{File, ROOT, expect_none, page, sources};
use super::mutants;

/// Returns the rows of the first table of the guarantees.
fn promises(guarantees: &str) -> Vec<&str> {
    let rows = guarantees.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    rows.take_while(|line| line.starts_with('|')).collect()
}

/// In the first table of the guarantees, the second column is a path, or a test.
#[test]
fn every_promise_names_what_holds_it() {
    let text = page("docs/guarantees.md");
    let tests: String = sources().into_iter().map(|file| file.text).collect();
    let mut wrong = Vec::new();
    for row in promises(&text) {
        let held = row.split(" | ").nth(1).unwrap_or_default();
        let names: Vec<&str> = held.split('`').skip(1).step_by(2).collect();
        let there = |name: &&str| match name.contains('/') {
            true => Path::new(ROOT).join(name).exists(),
            false => name.contains(' ') || tests.contains(&format!("fn {name}()")),
        };
        wrong.extend(names.iter().filter(|name| !there(name)).map(|name| name.to_string()));
        if names.is_empty() {
            wrong.push(format!("nothing holds: {row}"));
        }
    }
    expect_none(wrong);
}

#[test]
fn every_promise_has_a_rule_to_break_and_every_rule_a_test_that_notices() {
    let (text, guarantees) = (page(mutants::TABLE), page("docs/guarantees.md"));
    let rules = mutants::rules(&text).unwrap_or_else(|error| panic!("{error}"));
    let sources = sources();
    let exists = |rule: &mutants::Rule| {
        let folders = mutants::folders(rule.tier);
        let is_in = |file: &File| folders.iter().any(|folder| file.path.starts_with(folder));
        sources.iter().any(|file| is_in(file) && mutants::has_test(&file.text, rule.test))
    };
    let mut wrong = mutants::apart(&rules, &promises(&guarantees));
    let missing = rules.iter().filter(|rule| !exists(rule));
    wrong
        .extend(missing.map(|rule| format!("{}: there is no such test: {rule:?}", mutants::TABLE)));
    expect_none(wrong);
}
