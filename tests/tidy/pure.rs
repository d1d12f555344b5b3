//! The names that the core may use: nothing that reads a clock, a file or the environment, that
//! starts a thread or a process, that prints, or whose order differs between processes.
//!
//! Pure: the input is text. The permitted names of the standard library are a list, so that new
//! ones are refused. A name imported by a test does not count: test modules are left out, in a file
//! and in files of their own.
//!
//! Left out: the effects of the crates that the core depends on; their names are a list.

/// Permitted names of the standard library: a module, or one item of a module.
const STD: &[&str] = &[
    "array",
    "borrow",
    "cmp",
    "collections",
    "error",
    "fmt",
    "iter",
    "mem",
    "net::SocketAddr",
    "ops",
    "ptr::eq",
    "slice",
    "str",
    "sync::Arc",
    "sync::OnceLock",
    "time::Duration",
];

/// Forbidden names that the list would permit, or that need no path.
const NEVER: &[&str] =
    &["HashMap", "HashSet", "print", "println", "eprint", "eprintln", "thread_local"];

/// Crates that the core depends on.
pub const CRATES: &[&str] =
    &["raidshmem-codec", "serde", "strsim", "thiserror", "toml", "twox-hash"];

/// Files that may use another name, in code compiled only for tests.
const EXCEPT: &[(&str, &str)] = &[("crates/core/src/mutant.rs", "env::var")];

/// Returns the forbidden names in code of the file `path`; comments and strings are blanked.
pub fn impure(path: &str, code: &str) -> Vec<String> {
    let names = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
        parts.map(|part| part.trim_start_matches(':').to_owned()).collect()
    };
    let is_pure = |name: &str| {
        let within = |pure: &&str| name == *pure || name.starts_with(&format!("{pure}::"));
        STD.iter().any(within) || EXCEPT.contains(&(path, name))
    };
    let is_refused = |name: &String| match name.strip_prefix("std::") {
        Some(rest) if !is_pure(rest) => true,
        _ => name.split("::").any(|part| NEVER.contains(&part)),
    };
    names(code).into_iter().filter(is_refused).collect()
}

/// Returns the files, as paths without `.rs`, of the modules that a file declares only for tests.
pub fn test_modules(path: &str, text: &str) -> Vec<String> {
    let folder = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let text = text.replace("\npub(crate) mod ", "\nmod "); // for other tests
    let declared = text.split("#[cfg(test)]\nmod ").skip(1);
    let names = declared.filter_map(|rest| rest.lines().next()?.strip_suffix(';'));
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// Returns the crates that a manifest depends on.
pub fn needs(manifest: &str) -> Vec<&str> {
    let (_, needs) = manifest.split_once("[dependencies]\n").expect("dependencies");
    let needs = needs.lines().take_while(|line| !line.is_empty());
    needs.filter_map(|line| line.split(" = ").next()).collect()
}

#[test]
fn what_is_not_pure_is_found() {
    for code in [
        "std::fs::read(p)",
        "use std::time::Instant;",
        "use std::{fmt, env};",
        "::std::env::args()",
        "use std::collections::{BTreeMap, HashMap};",
        "println!()",
    ] {
        assert_eq!(impure("a.rs", code).len(), 1, "{code}");
    }
    for code in ["use std::fmt;", "std::time::Duration::ZERO", "a::std_fs::b()", "x.print_all()"] {
        assert_eq!(impure("a.rs", code), [""; 0], "{code}");
    }
    let declared = "#[cfg(test)]\nmod model;\nmod driver;\n#[cfg(test)]\nmod tests {\n";
    assert_eq!(test_modules("src/a/mod.rs", declared), ["src/a/model"]);
    assert_eq!(needs("[dependencies]\na = \"1\"\nb = { path = \"b\" }\n\n[x]\nc = 1"), ["a", "b"]);
}
