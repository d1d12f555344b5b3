//! Methods per type: a type that owns the parts of a process does not act for all of them.
//!
//! Left out: methods of traits, tests, and the number of fields.

use std::collections::BTreeMap;

use super::code::code_only;
use super::files::{CRATES, File, expect_none, rust, snippet};

/// Methods that a type may have, in all its `impl` blocks of a crate.
const METHODS_MAX: usize = 40;

/// Types with more methods, and why.
const METHOD_DEBTS: &[(&str, &str)] =
    &[("Peers", "the interface for programs, which call each routine without importing a trait")];

/// Returns the type of an `impl` block of its own methods that begins at this line.
fn owner(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    if rest.contains(" for ") {
        return None;
    }
    // Skips the parameters of the block, which may be nested: `impl<T: Into<U>>`.
    let (mut depth, mut at) = (0, 0);
    for (place, letter) in rest.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            ' ' if depth == 0 => {
                at = place + 1;
                break;
            }
            _ => {}
        }
    }
    let name = |c: &char| c.is_alphanumeric() || *c == '_';
    Some(rest[at..].chars().take_while(name).collect::<String>()).filter(|name| !name.is_empty())
}

/// Adds the methods of a file to those of each type.
fn count(file: &File, methods: &mut BTreeMap<String, usize>) {
    let code = code_only(&file.text);
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut of = None;
    for line in code.lines() {
        if line.starts_with("impl") {
            of = owner(line);
        } else if line.starts_with('}') {
            of = None;
        }
        let inside = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '));
        let words = inside.into_iter().flat_map(str::split_whitespace);
        let is_method = words.take_while(|word| !word.contains('(') || word.starts_with("pub("));
        if let (Some(of), true) = (&of, is_method.into_iter().any(|word| word == "fn")) {
            *methods.entry(of.clone()).or_default() += 1;
        }
    }
}

#[test]
fn types_have_few_methods() {
    let (mut wrong, mut needed) = (Vec::new(), Vec::new());
    for root in CRATES {
        let mut methods = BTreeMap::new();
        for file in rust(&[root]).iter().filter(|file| !file.path.ends_with("tests.rs")) {
            count(file, &mut methods);
        }
        for (of, count) in methods.into_iter().filter(|(_, count)| *count > METHODS_MAX) {
            match METHOD_DEBTS.iter().find(|(debt, _)| *debt == of) {
                Some((debt, _)) => needed.push(*debt),
                None => wrong.push(format!("{root}: {of}: {count} methods of {METHODS_MAX}")),
            }
        }
    }
    let paid = METHOD_DEBTS.iter().filter(|(debt, _)| !needed.contains(debt));
    wrong.extend(paid.map(|(debt, _)| format!("METHOD_DEBTS: {debt} has few methods by now")));
    expect_none(wrong);
}

#[test]
fn methods_are_counted_by_type() {
    let mut methods = BTreeMap::new();
    let text = concat!(
        "impl<'a, T: Into<U>> Part<'a> {\n    pub(in crate::x) fn a() {}\n",
        "    fn b() {\n        fn c() {}\n    }\n}\n",
        "impl fmt::Debug for Part {\n    fn d() {}\n}\nfn e() {}\n",
    );
    count(&snippet(text), &mut methods);
    count(&snippet("impl Part<'_> {\n    pub unsafe fn f() {}\n}\n"), &mut methods);
    assert_eq!(methods, BTreeMap::from([("Part".to_owned(), 3)]));
}
