//! The direction of data flow: layers import downwards, the core is pure, crates have only the
//! dependencies in the table, and no files form circles.

use std::collections::BTreeSet;

use super::circles::{Circle, circles};
use super::code::{code_only, words};
use super::files::{CORE, CRATES, File, expect_none, manifests, page, rust};
use super::pure;

/// Modules side by side in the diagram: neither imports the other.
const SIBLINGS: &[[&str; 2]] = &[["capi", "shmem"]];

/// Imports against the direction of the layers that still exist: file, module, the item that must
/// move.
const LAYER_DEBTS: &[(&str, &str, &str)] = &[];

/// Circles of files that still exist: every file of each, and the reason.
const CIRCLE_DEBTS: &[(&str, &str)] = &[];

/// Returns the modules in the diagram of the crate's documentation, lowest first.
fn layers(documentation: &str) -> Vec<String> {
    let diagram = documentation.split("```text").nth(1).and_then(|rest| rest.split("```").next());
    let modules = |line: &str| -> Vec<String> {
        let line = line.trim_start_matches("//!").trim();
        let fields: Vec<&str> = line.split("  ").map(str::trim).filter(|f| !f.is_empty()).collect();
        fields.iter().take(fields.len().saturating_sub(1)).map(|&f| f.to_owned()).collect()
    };
    diagram.unwrap_or_default().lines().flat_map(modules).collect()
}

/// Returns modules of the crate that a source names, in `use` or anywhere else in its code.
fn imports(text: &str) -> BTreeSet<String> {
    let code = code_only(text);
    let name = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let mut found = BTreeSet::new();
    for at in words(&code, "crate") {
        let Some(rest) = code[at + 5..].strip_prefix("::") else { continue };
        match rest.strip_prefix('{') {
            None => drop(found.insert(name(rest))),
            Some(list) => {
                let list = list.split('}').next().unwrap_or_default();
                found.extend(list.split(',').map(|item| name(item.trim())));
            }
        }
    }
    found.remove("");
    found
}

/// Returns the top module of the crate that contains a file.
fn module_of(path: &str) -> Option<String> {
    let (_, inside) = path.split_once("src/")?;
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "bin"].contains(&first)).then(|| first.to_owned())
}

/// Returns the modules that a file imports although they are above its own, or side by side with
/// it.
fn upward(file: &File, layers: &[String]) -> Vec<(String, String)> {
    let Some(own) = module_of(&file.path) else { return Vec::new() };
    let height = |module: &str| layers.iter().position(|layer| layer == module);
    let is_sibling = |module: &String| {
        SIBLINGS.iter().any(|pair| pair.contains(&own.as_str()) && pair.contains(&module.as_str()))
    };
    let wrong = |module: &String| match (height(&own), height(module)) {
        (Some(own), Some(other)) => other > own || is_sibling(module),
        (None, _) => true,
        (_, None) => false, // an item of the crate, not a module
    };
    let imports = imports(&file.text).into_iter().filter(|module| *module != own);
    imports.filter(wrong).map(|module| (file.path.clone(), module)).collect()
}

/// Users see the names in `src/lib.rs`, and no module.
#[test]
fn modules_are_hidden_from_users() {
    let text = page("src/lib.rs");
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.windows(2).filter(|two| two[0] != "#[doc(hidden)]");
    let shown = shown.filter_map(|two| two[1].strip_prefix("pub mod "));
    expect_none(shown.map(|name| format!("src/lib.rs: users see the module {name}")).collect());
}

#[test]
fn layers_import_downwards_only() {
    let (mut complaints, found): (Vec<_>, Vec<_>) =
        CRATES.iter().map(|root| layers_of(root)).unzip();
    let found = found.concat();
    let is = |debt: &(&str, &str, &str), (path, module): &(String, String)| {
        debt.0 == path && debt.1 == module
    };
    let new = found.iter().filter(|edge| !LAYER_DEBTS.iter().any(|debt| is(debt, edge)));
    let new = new.map(|(path, module)| format!("{path}: imports {module}, not above it"));
    complaints.push(new.collect());
    let paid = LAYER_DEBTS.iter().filter(|debt| !found.iter().any(|edge| is(debt, edge)));
    complaints
        .push(paid.map(|debt| format!("LAYER_DEBTS: {} {} is paid", debt.0, debt.1)).collect());
    expect_none(complaints.concat());
}

/// Returns, for one crate, the modules missing in its diagram, and the imports against it.
fn layers_of(root: &str) -> (Vec<String>, Vec<(String, String)>) {
    let documentation = page(&format!("{root}/lib.rs"));
    let layers = layers(&documentation);
    let declared =
        |line| str::trim_start_matches(line, "pub ").strip_prefix("mod ")?.strip_suffix(';');
    let declared = documentation.lines().filter_map(declared);
    let hidden = declared.filter(|name| !layers.iter().any(|layer| layer == name));
    let hidden = hidden.map(|name| format!("{root}/lib.rs: {name} is not in the diagram"));
    let against = rust(&[root]).iter().flat_map(|file| upward(file, &layers)).collect();
    (hidden.collect(), against)
}

/// The compiler refuses unsafe code there; this test covers the effects of safe code.
#[test]
fn the_core_is_pure() {
    let files = rust(&[CORE]);
    let tests: Vec<String> =
        files.iter().flat_map(|file| pure::test_modules(&file.path, &file.text)).collect();
    let shipped = files.iter().filter(|file| !tests.iter().any(|test| file.path.starts_with(test)));
    let impure = |file: &File| -> Vec<String> {
        let text = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let found = pure::impure(&file.path, &code_only(text)).into_iter();
        found.map(|name| format!("{}: {name}", file.path)).collect()
    };
    expect_none(shipped.flat_map(impure).collect());
    assert_eq!(pure::needs(&page("crates/core/Cargo.toml")), pure::CRATES);
}

/// A patch would apply here, but not to a program that depends on this crate; a path without a
/// version would not work for a program that gets the crate from a registry.
#[test]
fn dependencies_are_what_they_are_for_users_too() {
    assert!(!page("Cargo.toml").contains("[patch"), "Cargo.toml: expected a path, no patch");
    let bare = |line: &&str| {
        line.contains("path = \"") && line.contains(" = {") && !line.contains("version = \"")
    };
    let of = |file: File| -> Vec<String> {
        file.text
            .lines()
            .filter(bare)
            .map(|line| format!("{}: no version: {line}", file.path))
            .collect()
    };
    expect_none(manifests().flat_map(of).collect());
}

/// The compiler refuses crates that a manifest does not name; this test covers the manifests.
#[test]
fn crates_depend_on_what_the_table_of_crates_lists() {
    let ours = |name: &&str| name.starts_with("raidshmem") || name.ends_with("-sys");
    let row = |file: File| -> String {
        let name = file.text.split("name = \"").nth(1).and_then(|rest| rest.split('"').next());
        let needs =
            pure::needs(&file.text).into_iter().filter(ours).map(|name| format!("`{name}`"));
        let needs: Vec<String> = needs.filter(|name| !name.contains("linux-raw")).collect();
        let folder = match file.path.trim_end_matches("Cargo.toml") {
            "" => "src/",
            folder => folder,
        };
        format!("| `{}` | `{folder}` | {} |", name.expect("a name"), needs.join(", "))
    };
    let architecture = page("ARCHITECTURE.md");
    let (_, section) = architecture.split_once("## Crates").expect("the section");
    let shown = section.lines().filter(|line| line.starts_with("| `")).take(CRATES.len());
    let short = |line: &str| -> String {
        let fields: Vec<&str> = line.split(" | ").collect();
        [fields[0], fields[1], fields[fields.len() - 1]].join(" | ")
    };
    let mut shown: Vec<String> = shown.map(short).collect();
    let mut wanted: Vec<String> = manifests().map(row).collect();
    shown.sort();
    wanted.sort();
    assert_eq!(shown, wanted, "the table of crates in ARCHITECTURE.md");
}

/// Returns the files of a crate, by their paths from the folder of its `lib.rs`.
fn files_of(root: &str) -> Vec<(String, String)> {
    let below = |file: File| {
        let path = file.path.strip_prefix(root)?.strip_prefix('/')?.to_owned();
        (!path.starts_with("bin/")).then(|| (path, code_only(&file.text)))
    };
    rust(&[root]).into_iter().filter_map(below).collect()
}

#[test]
fn no_files_go_in_circles() {
    let found: Vec<_> = CRATES.iter().flat_map(|root| circles(&files_of(root))).collect();
    let is = |debt: &(&str, &str), circle: &Circle| debt.0 == circle.files.join(" ");
    let new = found.iter().filter(|circle| !CIRCLE_DEBTS.iter().any(|debt| is(debt, circle)));
    let mut complaints: Vec<String> = new
        .map(|new| format!("a circle: {}\n  {}", new.files.join(" "), new.edges.join("\n  ")))
        .collect();
    let open = CIRCLE_DEBTS.iter().filter(|debt| !found.iter().any(|circle| is(debt, circle)));
    complaints.extend(open.map(|debt| format!("CIRCLE_DEBTS: not a circle any more: {}", debt.0)));
    expect_none(complaints);
}

#[test]
fn imports_against_the_layers_are_found() {
    let layers =
        layers("//! ```text\n//! sys  heap   words, and so on\n//! pgas   world\n//! ```\n");
    assert_eq!(layers, ["sys", "heap", "pgas"]);
    let up =
        |path: &str, text: &str| upward(&File { path: path.into(), text: text.into() }, &layers);
    assert_eq!(up("src/heap/mod.rs", "use crate::{sys, pgas::World};").len(), 1);
    assert_eq!(up("src/heap.rs", "fn f() { crate::pgas::init() }").len(), 1);
    assert!(up("crates/runtime/src/pgas/world.rs", "use crate::heap::Heap;").is_empty());
    assert!(up("src/heap.rs", "//! [`crate::pgas::World`]").is_empty());
    assert_eq!(up("src/unknown.rs", "use crate::sys;").len(), 1);
    let two = ["openshmem", "capi", "shmem"].map(str::to_owned);
    let up = |path: &str, text: &str| upward(&File { path: path.into(), text: text.into() }, &two);
    assert_eq!(up("src/shmem/lock.rs", "use crate::capi::lock::Lock;").len(), 1);
    assert_eq!(up("src/capi/lock.rs", "use crate::shmem::Lock;").len(), 1);
    assert_eq!(up("src/openshmem/lock.rs", "use crate::capi::claims;").len(), 1);
    assert!(up("src/shmem/lock.rs", "use crate::{openshmem::lock::Lock, shmem};").is_empty());
}
