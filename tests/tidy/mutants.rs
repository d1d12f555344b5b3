//! The rules broken on purpose, checked against the tests and the guarantees that they name.
//!
//! Pure: the input is text. A rule is one line of [`TABLE`], as `.ci/mutants` reads it; a guarantee
//! is a row of the first table of `docs/guarantees.md`, whose last column names the rules that test
//! it, or gives after [`NONE`] the reason why none can.

use std::collections::BTreeSet;

/// The file of the rules.
pub const TABLE: &str = "crates/core/src/mutant.rs";

/// The beginning of a row's reason for having no rule.
const NONE: &str = "none: ";

/// A rule: its name, and the tier and the beginning of the test that notices it.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    pub name: &'a str,
    pub tier: &'a str,
    pub test: &'a str,
}

/// Returns the rules in the text of [`TABLE`]; the error is an invalid line.
pub fn rules(text: &str) -> Result<Vec<Rule<'_>>, String> {
    let lines = text.lines().skip_while(|line| *line != "rules! {").skip(1);
    let lines = lines.take_while(|line| *line != "}").map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(|line| rule(line).ok_or(format!("{TABLE}: not a rule: {line}"))).collect()
}

fn rule(line: &str) -> Option<Rule<'_>> {
    let (_, rest) = line.strip_suffix("\";")?.split_once(" = \"")?;
    let (name, rest) = rest.split_once("\", ")?;
    let (tier, test) = rest.split_once(", \"")?;
    let is_plain = |text: &str, also: &[u8]| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || also.contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    let whole = is_plain(name, b"-") && is_plain(tier, b"") && is_plain(test, b"_:0123456789");
    whole.then_some(Rule { name, tier, test })
}

/// Returns the folders of a tier's tests; empty if there is no such tier.
pub fn folders(tier: &str) -> &'static [&'static str] {
    match tier {
        "unit" => &["src/", "crates/"],
        "explorer" => &[
            "crates/core/src/protocol/explore/",
            "crates/core/src/replay/explore/",
            "crates/core/src/agree/",
            "crates/core/src/tree/",
        ],
        "simulator" => &["tests/sim/"],
        "processes" => &["tests/process/"],
        _ => &[],
    }
}

/// True if the text has a test whose name begins like `test`.
pub fn has_test(text: &str, test: &str) -> bool {
    let begins = format!("fn {}", test.rsplit("::").next().unwrap_or(test));
    let mut marked = false;
    text.lines().map(str::trim).any(|line| {
        let found = marked && line.starts_with(&begins);
        marked = line == "#[test]" || marked && (line.starts_with("#[") || line.is_empty());
        found
    })
}

/// Compares the rules and the rows: returns names of unknown rules, rows without a rule and without
/// a reason, and rules that no row names.
pub fn apart(rules: &[Rule], rows: &[&str]) -> Vec<String> {
    let mut left: BTreeSet<&str> = rules.iter().map(|rule| rule.name).collect();
    let known = left.clone();
    let mut wrong = Vec::new();
    for row in rows {
        let column = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = column.split('`').skip(1).step_by(2).collect();
        let says_why = column.strip_prefix(NONE).is_some_and(|why| !why.is_empty());
        if names.is_empty() && !says_why {
            wrong.push(format!("it has neither a rule nor a reason: {row}"));
        }
        let strange = names.iter().filter(|name| !says_why && !known.contains(**name));
        wrong.extend(strange.map(|name| format!("there is no rule {name}: {row}")));
        left.retain(|name| !names.contains(name));
    }
    wrong.extend(left.iter().map(|name| format!("no promise names the rule {name}")));
    wrong
}

#[test]
fn what_is_apart_is_found() {
    let text = "rules! {\n    // A part.\n    /// What.\n    A = \"a-b\", unit, \"x::y\";\n}\n}";
    let found = rules(text).expect("a rule");
    assert_eq!(found, [Rule { name: "a-b", tier: "unit", test: "x::y" }]);
    assert!(rules("rules! {\n    A = \"a-b\", unit;\n}").is_err());
    assert!(has_test("#[test]\nfn y_holds() {", "x::y"));
    assert!(!has_test("fn y_holds() {", "x::y") && !has_test("#[test]\nfn z() {\nfn y() {", "y"));
    assert!(apart(&found, &["| p | t | `a-b` |", "| p | t | none: why |"]).is_empty());
    for rows in [&["| p | t | `a-b` |", "| p | t | `a` |"][..], &["| p | t | `a-b` |", "| p | t |"]]
    {
        assert_eq!(apart(&found, rows).len(), 1, "{rows:?}");
    }
    assert_eq!(apart(&found, &["| p | t | none: why |"]), ["no promise names the rule a-b"]);
}
