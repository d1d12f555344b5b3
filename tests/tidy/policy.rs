//! The policy for losses: a call is described, and the dispatch decides how it is executed.
//!
//! The type of the policy is private to its module, so that no other code can match on it. Here is
//! the number of lines that ask for its consequences outside of the policy, the dispatch and the
//! executors: each is a feature that must be taught to every such place.
//!
//! Left out: tests of an executor's own state, such as the mode of a log.

use super::code::code_only;
use super::files::{File, expect_none, rust, snippet};

/// Lines that may ask. Lower it whenever the count has fallen.
const ASKS_MAX: usize = 23;

/// Queries for the policy.
const QUERIES: &[&str] = &[
    ".logs()",
    "World::logs",
    ".is_on()",
    ".shrinks()",
    ".rolls_back_after_loss()",
    ".always_rolls_all_back()",
];

/// The policy, the dispatch of operations and of collectives, and the executors that they choose.
const DISPATCH: &[&str] = &[
    "crates/runtime/src/pgas/policy.rs",
    "crates/runtime/src/pgas/world/policy.rs",
    "src/openshmem/memory/issue.rs",
    "src/openshmem/memory/logged.rs",
    "src/openshmem/collective/mod.rs",
    "src/openshmem/collective/logged.rs",
    "src/openshmem/collective/living.rs",
];

/// Returns the lines of a source that ask.
fn asks(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let lines = code.lines().enumerate();
    let asking = lines.filter(|(_, line)| QUERIES.iter().any(|query| line.contains(query)));
    asking.map(|(n, line)| format!("{}:{}: {}", file.path, n + 1, line.trim())).collect()
}

#[test]
fn the_policy_is_asked_in_few_places() {
    let files = rust(&["src", "crates/runtime/src"]);
    for path in DISPATCH {
        assert!(files.iter().any(|file| file.path == *path), "DISPATCH: there is no {path}");
    }
    let others = files.iter().filter(|file| !DISPATCH.contains(&file.path.as_str()));
    let found: Vec<String> = others.flat_map(asks).collect();
    if found.len() > ASKS_MAX {
        let count = format!("{} lines ask for the policy; expected {ASKS_MAX}", found.len());
        expect_none(found.into_iter().chain([count]).collect());
    } else {
        assert_eq!(found.len(), ASKS_MAX, "the count has fallen: lower ASKS_MAX");
    }
}

#[test]
fn queries_are_found_in_code() {
    assert_eq!(asks(&snippet("if world.logs() {\n}\nlet on = self.local.is_on();\n")).len(), 2);
    assert_eq!(asks(&snippet("// if world.logs()\nlet say = \".logs()\";\nlogs();\n")).len(), 0);
}
