//! The style as a test: what CONTRIBUTING.md asks for is held here, or by a lint, or not at all.
//!
//! Each rule is a pure function from text to complaints; the tests at the end feed the rules with
//! snippets that must fail, so that a rule that has gone blind is noticed.
//!
//! Exceptions are lists in this file, each entry with its reason. An entry that is no longer needed
//! is a failure too, so the lists only shrink by themselves and grow only on purpose.
//!
//! `RAIDSHMEM_WRITE_DOCS=1 cargo test --test tidy` writes the table of `docs/settings.md`.
//!
//! Left out: what rustfmt and clippy see.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod circles;
mod mutants;
mod names;
mod pure;

use circles::{Circle, circles};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// The folders of the `lib.rs` of each crate that is shipped.
const CRATES: &[&str] = &[
    "src",
    "codec/src",
    CORE,
    "crates/sys/src",
    "crates/segment/src",
    "crates/fabric/src",
    "crates/report/src",
    "crates/advise/src",
    "crates/archive/src",
    "crates/fabric-ucx/src",
    "crates/fabric-verbs/src",
];
/// What decides, and has no unsafe code at all.
const CORE: &str = "crates/core/src";

/// Files that may contain unsafe code, with the reason; ARCHITECTURE.md shows the same list.
const UNSAFE: &[(&str, &str)] = &[
    ("src/affinity.rs", "registers the table of masks, which is static, with the checkpoints"),
    ("src/bin/oshrun.rs", "sets its environment before any thread; takes an inherited descriptor"),
    ("src/capi/claims.rs", "reads and writes the lists of the C caller, and reads its texts"),
    ("src/capi/family.rs", "exports C functions under their names"),
    (
        "src/capi/ft.rs",
        "gives lists to the C caller in memory from malloc; an entry that knows its caller; \
         hands the pointer of a handler back",
    ),
    ("src/capi/longdouble.rs", "a C type that Rust has no name for, passed by value"),
    ("src/capi/number.rs", "arithmetic on a C type that Rust has no name for, in machine code"),
    ("src/checkpoint/tiles.rs", "tiles and their stamps, each with one writer"),
    ("src/control/page.rs", "words of a page shared by processes, as atomics"),
    ("src/faults.rs", "registers private memory that the caller promises to keep"),
    ("src/launch/agent/mod.rs", "rings the bell in the control words of a PE"),
    (
        "src/openshmem/context.rs",
        "registers the table of contexts, which is static, with the checkpoints",
    ),
    ("src/openshmem/memory/address.rs", "writes a result where the caller wants it"),
    (
        "src/openshmem/memory/elements.rs",
        "the same as `rma.rs` for single words, without a look twice",
    ),
    ("src/openshmem/memory/logged.rs", "copies between buffers of the caller, segments and logs"),
    ("src/openshmem/memory/place.rs", "hands buffers of the caller to streams"),
    ("src/openshmem/memory/rma.rs", "turns checked claims of the caller into accesses"),
    ("src/openshmem/memory/word.rs", "words that PEs change at the same time, as atomics"),
    (
        "src/openshmem/team.rs",
        "registers the table of teams, which is static, with the checkpoints",
    ),
    ("src/pgas/boot.rs", "takes an inherited descriptor; maps the statics in place"),
    ("src/pgas/inherit.rs", "writes the store before the process is a PE"),
    ("src/pgas/world/memory.rs", "passes on where private memory is"),
    ("src/pgas/world/regions.rs", "copies private memory that was registered"),
    ("src/pgas/world/segments.rs", "references to segments that are never freed"),
    ("src/pgas/world/stream.rs", "sends pointers to such buffers from thread to thread"),
    (
        "src/pgas/nonblocking.rs",
        "buffers of calls that have returned, until their operation is over",
    ),
    ("src/shmem/handle.rs", "says that handles are plain data"),
    ("src/shmem/protected.rs", "lends private memory that checkpoints read and restarts write"),
    ("src/shmem/token.rs", "lends the own memory, which its token lends once at a time"),
    ("src/shmem/root.rs", "the block at the start of the heap, as atomics"),
    ("codec/src/kernel/avx2.rs", "the instructions of AVX2"),
    ("codec/src/kernel/avx512.rs", "the instructions of AVX-512"),
    ("codec/src/kernel/gfni.rs", "the instructions of GFNI"),
    ("codec/src/kernel/loops.rs", "calls what a kernel's value proves to be there"),
    ("codec/src/kernel/neon.rs", "the instructions of NEON"),
    ("codec/src/kernel/ssse3.rs", "the instructions of SSSE3"),
    ("crates/sys/src/caller.rs", "asks the C library and the loader who called, and from where"),
    ("crates/sys/src/exit.rs", "registers an exit handler; flushes C streams; ends the process"),
    ("crates/sys/src/futex.rs", "the system calls futex and membarrier"),
    ("crates/sys/src/huge.rs", "a child with namespaces of its own mounts a file system"),
    ("crates/sys/src/memory.rs", "maps, protects and unmaps memory"),
    (
        "crates/sys/src/process.rs",
        "acts between fork and exec; a timer and a pipe of the kernel that end the process; blanks \
         a variable of the environment",
    ),
    ("crates/sys/src/signals.rs", "asks what a signal does"),
    ("crates/sys/src/threads.rs", "asks whether a number is that of an own thread"),
    ("crates/sys/src/written.rs", "asks the kernel to watch pages, and which were written"),
    ("crates/segment/src/lib.rs", "turns offsets that were checked into memory"),
    (
        "crates/segment/src/statics.rs",
        "reads the loader's list and the running executable's tables",
    ),
    ("crates/segment/src/update.rs", "updates a word of a mapped segment in one step"),
    ("crates/fabric-verbs/src/device.rs", "opens a device of libibverbs and asks what it can do"),
    ("crates/fabric-verbs/src/objects.rs", "registered memory and queues of libibverbs as objects"),
    ("crates/fabric-verbs/src/pair.rs", "queue pairs of libibverbs and what is posted to them"),
    ("crates/fabric-ucx/src/lib.rs", "lends UCX bytes until an operation is over"),
    ("crates/fabric-ucx/src/raw.rs", "calls UCX"),
];

/// Modules that stand side by side in the diagram: neither imports the other.
const BESIDE: &[[&str; 2]] = &[["capi", "shmem"]];

/// Imports against the direction of the layers that are still there: file, module, what is to move.
const LAYER_DEBTS: &[(&str, &str, &str)] = &[];

/// Circles of files that are still there: every file of each, and why.
const CIRCLE_DEBTS: &[(&str, &str)] = &[];

/// Files longer than the limit that are still there.
const LENGTH_DEBTS: &[&str] = &[];

/// Words that must not be committed, cut in two so that this file does not contain them.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "an unfinished branch"),
    (concat!("unimpl", "emented!("), "an unfinished branch"),
    (concat!("db", "g!("), "debugging output"),
    (concat!("FIX", "ME"), "do it or write down what is not done"),
    (concat!("XX", "X"), "do it or write down what is not done"),
    (concat!("#[ign", "ore"), "a test that does not run proves nothing"),
    (concat!("/wo", "rk/"), "a path of one machine"),
];

// ---- files --------------------------------------------------------------------------------------

struct File {
    path: String,
    text: String,
}

/// Every file below `folder` whose name `wanted` accepts, in order.
fn files(folder: &str, wanted: fn(&str) -> bool) -> Vec<File> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().is_some_and(wanted) {
                found.push(read(path));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn read(path: PathBuf) -> File {
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let path = path.strip_prefix(ROOT).expect("inside").to_str().expect("ASCII").to_owned();
    File { path, text }
}

fn rust(folders: &[&str]) -> Vec<File> {
    folders.iter().flat_map(|folder| files(folder, |name| name.ends_with(".rs"))).collect()
}

/// All Rust sources, ours to read and to write.
fn sources() -> Vec<File> {
    rust(CRATES)
        .into_iter()
        .chain(rust(&[
            "codec/tests",
            "codec/benches",
            "codec/examples",
            "crates/sys/tests",
            "crates/advise/tests",
            "tests",
        ]))
        .chain(rust(&["examples", "benches", "fuzz/src", "fuzz/fuzz_targets"]))
        .collect()
}

/// Sources that are not Rust: C, scripts, the makefile and manifests.
fn others() -> Vec<File> {
    let c = ["examples", "tests", "python"].into_iter().flat_map(|folder| {
        files(folder, |n| [".c", ".cc", ".sh", ".py"].iter().any(|e| n.ends_with(e)))
    });
    let single = ["Makefile", "raidshmem.pc.in"].map(|name| read(Path::new(ROOT).join(name)));
    let scripts = [".ci", "packaging"].into_iter().flat_map(|folder| files(folder, |_| true));
    c.chain(scripts).chain(manifests()).chain(single).collect()
}

/// The manifest of each crate.
fn manifests() -> impl Iterator<Item = File> {
    let name = |root: &&str| format!("{}Cargo.toml", root.trim_end_matches("src"));
    CRATES.iter().map(name).map(|name| read(Path::new(ROOT).join(name)))
}

fn page(name: &str) -> String {
    read(Path::new(ROOT).join(name)).text
}

/// Fails with every complaint at once.
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

// ---- reading Rust -------------------------------------------------------------------------------

/// The text with comments, and the contents of strings and characters, turned into spaces.
fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => find(bytes, at, b"*/") + 2,
            b'r' if raw_hashes(bytes, at).is_some() => raw_end(bytes, at),
            b'"' => quoted_end(bytes, at, b'"'),
            b'\'' if is_char(bytes, at) => quoted_end(bytes, at, b'\''),
            _ => {
                at += 1;
                continue;
            }
        };
        let end = end.min(bytes.len());
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    let hit = bytes[from..].windows(what.len()).position(|window| window == what);
    hit.map_or(bytes.len(), |hit| from + hit)
}

/// The number of `#` of a raw string that begins here.
fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if at > 0 && word(bytes[at - 1]) && bytes[at - 1] != b'b' {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_end(bytes: &[u8], at: usize) -> usize {
    let hashes = raw_hashes(bytes, at).unwrap_or(0);
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    find(bytes, at + 2 + hashes, &close) + close.len()
}

fn quoted_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != quote {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    end + 1
}

/// A character, not a lifetime.
fn is_char(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1) == Some(&b'\\') || bytes.get(at + 2) == Some(&b'\'')
}

/// Where `word` stands alone in `code`.
fn words(code: &str, word: &str) -> Vec<usize> {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let alone = |at: &usize| {
        !part(code[..*at].chars().next_back()) && !part(code[at + word.len()..].chars().next())
    };
    code.match_indices(word).map(|(at, _)| at).filter(alone).collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

// ---- rules --------------------------------------------------------------------------------------

fn long_lines(file: &File) -> Vec<String> {
    let long = |(_, line): &(usize, &str)| line.chars().count() > COLUMNS_MAX;
    let say = |(n, _)| format!("{}:{}: more than {COLUMNS_MAX} columns", file.path, n + 1);
    file.text.lines().enumerate().filter(long).map(say).collect()
}

fn strange_letters(file: &File) -> Vec<String> {
    let strange = |(_, line): &(usize, &str)| !line.is_ascii() || line.contains('\t');
    let tabs_are_syntax = file.path == "Makefile";
    let say = |(n, _)| format!("{}:{}: a letter that is not ASCII, or a tab", file.path, n + 1);
    let lines = file.text.lines().enumerate();
    let strange = lines.filter(strange);
    strange.filter(|(_, line)| !tabs_are_syntax || !line.is_ascii()).map(say).collect()
}

fn long_file(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    (lines > FILE_LINES_MAX)
        .then(|| format!("{}: {lines} lines; expected {FILE_LINES_MAX}", file.path))
}

fn long_functions(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let length = |at: usize| -> Option<usize> {
        let body =
            at + code[at..].find(['{', ';']).filter(|end| !code[at + end..].starts_with(';'))?;
        let mut depth = 0;
        for (step, letter) in code[body..].char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(line_of(&code, body + step) - line_of(&code, at) + 1);
            }
        }
        None
    };
    let long = |at: usize| {
        let lines = length(at).filter(|&lines| lines > FUNCTION_LINES_MAX)?;
        let place = format!("{}:{}", file.path, line_of(&code, at));
        Some(format!("{place}: a function of {lines} lines; expected {FUNCTION_LINES_MAX}"))
    };
    words(&code, "fn").into_iter().filter_map(long).collect()
}

fn no_opening(file: &File) -> Option<String> {
    let opens = file.text.starts_with("//! ") || file.text.starts_with("/*!");
    (!opens).then(|| format!("{}: does not open with a module comment (//!)", file.path))
}

fn has_unsafe(file: &File) -> bool {
    !words(&code_only(&file.text), "unsafe").is_empty()
}

fn banned(file: &File) -> Vec<String> {
    let hits = |&(word, why): &(&str, &str)| -> Vec<String> {
        let say = |(at, _)| format!("{}:{}: `{word}`: {why}", file.path, line_of(&file.text, at));
        file.text.match_indices(word).map(say).collect()
    };
    BANNED.iter().flat_map(hits).collect()
}

/// The modules in the diagram of the crate's documentation, lowest first.
fn layers(documentation: &str) -> Vec<String> {
    let diagram = documentation.split("```text").nth(1).and_then(|rest| rest.split("```").next());
    let modules = |line: &str| -> Vec<String> {
        let line = line.trim_start_matches("//!").trim();
        let fields: Vec<&str> = line.split("  ").map(str::trim).filter(|f| !f.is_empty()).collect();
        fields.iter().take(fields.len().saturating_sub(1)).map(|&f| f.to_owned()).collect()
    };
    diagram.unwrap_or_default().lines().flat_map(modules).collect()
}

/// Modules of the crate that a source names, in `use` or anywhere else in its code.
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

/// The top module of its crate that a file belongs to.
fn module_of(path: &str) -> Option<String> {
    let (_, inside) = path.split_once("src/")?;
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "bin"].contains(&first)).then(|| first.to_owned())
}

/// The modules that a file imports although they are not above its own, or stand beside it.
fn upward(file: &File, layers: &[String]) -> Vec<(String, String)> {
    let Some(own) = module_of(&file.path) else { return Vec::new() };
    let height = |module: &str| layers.iter().position(|layer| layer == module);
    let beside = |module: &String| {
        BESIDE.iter().any(|pair| pair.contains(&own.as_str()) && pair.contains(&module.as_str()))
    };
    let wrong = |module: &String| match (height(&own), height(module)) {
        (Some(own), Some(other)) => other > own || beside(module),
        (None, _) => true,
        (_, None) => false, // an item of the crate, no module
    };
    let imports = imports(&file.text).into_iter().filter(|module| *module != own);
    imports.filter(wrong).map(|module| (file.path.clone(), module)).collect()
}

/// String literals that reach a user: the first in each of these calls and attributes.
const SPEAKING: &[&str] =
    &["#[error(", "misuse(", "abort(", "complain(", "fail(", " say(", "words = format!("];

/// The longest piece without a placeholder of each message in a source.
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

// ---- the repository -----------------------------------------------------------------------------

#[test]
fn lines_letters_and_words() {
    let all: Vec<File> = sources().into_iter().chain(others()).collect();
    let rules = |f: &File| [long_lines(f), strange_letters(f), banned(f)].concat();
    expect_none(all.iter().flat_map(rules).collect());
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let short = rust(CRATES);
    let debt = |file: &&File| LENGTH_DEBTS.contains(&file.path.as_str());
    let mut complaints: Vec<String> =
        short.iter().filter(|f| !debt(f)).filter_map(long_file).collect();
    let paid = short.iter().filter(debt).filter(|file| long_file(file).is_none());
    complaints.extend(paid.map(|f| format!("LENGTH_DEBTS: {} is short by now", f.path)));
    complaints.extend(sources().iter().filter_map(no_opening));
    expect_none(complaints);
}

#[test]
fn functions_are_short() {
    expect_none(sources().iter().flat_map(long_functions).collect());
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let shipped = rust(CRATES);
    let holding: Vec<&str> =
        shipped.iter().filter(|f| has_unsafe(f)).map(|f| f.path.as_str()).collect();
    let allowed: Vec<&str> = UNSAFE.iter().map(|(path, _)| *path).collect();
    let new = holding.iter().filter(|path| !allowed.contains(path));
    let stale = allowed.iter().filter(|path| !holding.contains(path));
    let new = new.map(|path| format!("{path}: unsafe code, and not in the list UNSAFE"));
    let safe = CRATES.iter().filter(|root| !allowed.iter().any(|path| path.starts_with(**root)));
    let open = safe
        .filter(|root| !page(&format!("{root}/lib.rs")).contains("\n#![forbid(unsafe_code)]\n"));
    let stale = stale.map(|path| format!("UNSAFE: {path} has none"));
    let open = open.map(|root| format!("{root}/lib.rs: expected #![forbid(unsafe_code)]"));
    expect_none(new.chain(stale).chain(open).collect());

    let architecture = page("ARCHITECTURE.md");
    let (_, section) = architecture.split_once("## Files with unsafe code").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let of_file = |line: &&str| line.starts_with("| `") && line.contains(".rs` | ");
    let shown: Vec<&str> = section.lines().filter(of_file).collect();
    let row = |(path, why): &(&str, &str)| format!("| `{path}` | {why} |");
    let wanted: Vec<String> = UNSAFE.iter().map(row).collect();
    assert_eq!(shown, wanted, "the list of unsafe files in ARCHITECTURE.md");
}

/// Users see what `src/lib.rs` names, and no module.
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

/// Of one crate: what its diagram lacks, and the imports against it.
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

/// The compiler refuses unsafe code there; this is about what safe code can do.
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

/// A patch would hold here, and not for a program that depends on this crate; a path without a
/// version would hold for no program that has it from elsewhere.
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

/// The compiler refuses what a manifest does not name; this is about what the manifests name.
#[test]
fn crates_need_what_the_table_of_crates_says() {
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

/// The field has a word for it: `docs/glossary.md` has the few that are ours.
#[test]
fn words_are_the_fields() {
    // Cut in two, so that this file does not contain them.
    const OTHERS: &[(&str, &str)] = &[
        (concat!("cr", "ew"), "worker pool"),
        (concat!("le", "ash"), "parent-death pipe"),
        (concat!("kee", "per"), "supervisor"),
        (concat!("bal", "lot"), "recovery state"),
        (concat!("he", "ed"), "wait for, accept"),
        (concat!("cond", "emn"), "abort, unrecoverable"),
        (concat!("spo", "iled"), "corrupt"),
        (concat!("crow", "ded"), "oversubscribed"),
        (concat!("pu", "lse"), "heartbeat"),
        (concat!("se", "at"), "binding"),
    ];
    let forms = |word: &str| [word.to_owned(), format!("{word}s"), format!("{word}ed")];
    let ours = |line: &str| {
        let words = line.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_lowercase);
        let words: Vec<String> = words.collect();
        OTHERS.iter().find(|(word, _)| forms(word).iter().any(|form| words.contains(form)))
    };
    let mut wrong = Vec::new();
    for file in sources().into_iter().chain(others()) {
        for (number, line) in file.text.lines().enumerate() {
            if let Some((word, instead)) = ours(line) {
                wrong.push(format!("{}:{}: {word}: say {instead}", file.path, number + 1));
            }
        }
    }
    expect_none(wrong);
}

/// Files and the folder of a crate's `lib.rs` that they lie in.
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

/// The rows of the first table of the guarantees.
fn promises(guarantees: &str) -> Vec<&str> {
    let rows = guarantees.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    rows.take_while(|line| line.starts_with('|')).collect()
}

/// In the first table of the guarantees: what stands in the second column is a path, or a test.
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

#[test]
fn the_settings_page_shows_the_settings_there_are() {
    const PAGE: &str = "docs/settings.md";
    const BEGIN: &str = "<!-- settings: printed by oshinfo --markdown -->\n";
    const END: &str = "<!-- end of settings -->";
    let text = page(PAGE);
    let (before, rest) = text.split_once(BEGIN).expect("the mark of the settings");
    let (shown, after) = rest.split_once(END).expect("the end of the settings");
    let wanted = raidshmem_core::settings::markdown();
    if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
        let text = format!("{before}{BEGIN}{wanted}{END}{after}");
        return fs::write(Path::new(ROOT).join(PAGE), text).expect("the page is written");
    }
    assert!(
        shown == wanted,
        "{PAGE}: the settings are stale: run `RAIDSHMEM_WRITE_DOCS=1 cargo test --test tidy`"
    );
}

/// A setting that nobody has a reason to change is a constant.
#[test]
fn every_setting_says_why_it_would_be_changed() {
    const REASON_MAX: usize = 80;
    let wrong = |setting: &raidshmem_core::settings::Setting| match setting.reason().len() {
        0 => Some(format!("{}: no reason to change it", setting.name)),
        1..=REASON_MAX => None,
        len => Some(format!("{}: a reason of {len}; expected {REASON_MAX}", setting.name)),
    };
    expect_none(raidshmem_core::settings::table().iter().filter_map(wrong).collect());
}

/// Long options that a text names.
fn options_in(text: &str) -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_lowercase() || c == '-';
    let words = text.split(|c| !part(c)).filter_map(|word| word.strip_prefix("--"));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_manual_and_the_page_have_the_options_there_are() {
    let known = raidshmem::launch::cli::args::known();
    let names: BTreeSet<String> = known.into_iter().flat_map(|known| known.longs).collect();
    let (manual, page) = (page("man/oshrun.1").replace('\\', ""), page("docs/running.md"));
    let (manual, shown) = (options_in(&manual), options_in(&page));
    let mut wrong = Vec::new();
    for name in &names {
        let alias = ["host", "per-host"].contains(&name.as_str());
        if !manual.contains(name) && !alias {
            wrong.push(format!("man/oshrun.1 lacks --{name}"));
        }
        if !shown.contains(name) && !alias && !["help", "version"].contains(&name.as_str()) {
            wrong.push(format!("docs/running.md lacks --{name}"));
        }
    }
    let other = manual.iter().filter(|name| !names.contains(*name) && *name != "points");
    wrong.extend(other.map(|name| format!("man/oshrun.1: there is no --{name}")));
    expect_none(wrong);
}

/// The first page is read whole or not at all.
#[test]
fn the_readme_is_short() {
    let words = page("README.md").split_whitespace().count();
    assert!(words < 1500, "README.md has {words} words; what it says at length belongs into docs/");
}

#[test]
fn the_index_of_examples_names_each() {
    let index = page("examples/README.md");
    let mut wrong = Vec::new();
    for folder in ["", "porting/", "c/", "cxx/"] {
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(folder);
        for entry in std::fs::read_dir(files).expect("a folder").flatten() {
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.path().is_file()
                && name != "README.md"
                && !index.contains(&format!("]({name})"))
            {
                wrong.push(format!("examples/{name} is not in examples/README.md"));
            }
        }
    }
    expect_none(wrong);
}

/// Links from a document to a file or a heading of the repository.
#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for document in documents() {
        let folder = Path::new(&document).parent().expect("a folder").to_owned();
        let text = page(&document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = match file {
                "" => Path::new(&document).to_owned(),
                file => folder.join(file),
            };
            let there = Path::new(ROOT).join(&path).exists();
            let anchors = || headings(&page(&path.to_string_lossy()));
            if !there || !(heading.is_empty() || anchors().iter().any(|anchor| anchor == heading)) {
                wrong.push(format!("{document}: {link} leads nowhere"));
            }
        }
    }
    expect_none(wrong);
}

#[test]
fn the_book_has_every_page_and_what_they_include() {
    let contents = page("docs/SUMMARY.md");
    let mut wrong = Vec::new();
    for document in documents() {
        let name = document.strip_prefix("docs/").filter(|name| *name != "SUMMARY.md");
        if name.is_some_and(|name| !contents.contains(&format!("({name})"))) {
            wrong.push(format!("{document} is not in docs/SUMMARY.md"));
        }
        let text = page(&document);
        for included in text.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next())
        {
            let file = included.split(':').next().unwrap_or(included);
            if !Path::new(ROOT).join("docs").join(file).exists() {
                wrong.push(format!("{document}: {included} is not there"));
            }
        }
    }
    expect_none(wrong);
}

/// The documents of the repository.
fn documents() -> Vec<String> {
    let mut all = Vec::new();
    for folder in [".", "docs", "benches", "python", "whitepaper"] {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    assert!(all.len() > 10, "{all:?}");
    all
}

/// The headings of a document, as links name them.
fn headings(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| -> String {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    lines.map(anchor).collect()
}

#[test]
fn the_readme_shows_the_example_there_is() {
    let example = page("examples/count.c");
    let (_, program) = example.split_once("*/\n").expect("it opens with a comment");
    assert!(page("README.md").contains(program), "README.md: the program is not examples/count.c");
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

/// What `.ci/sums` makes of a log: its status and its lines.
fn sums(log: &str) -> (bool, Vec<String>) {
    let name = format!("{}/sums-{}.log", env!("CARGO_TARGET_TMPDIR"), log.len());
    fs::write(&name, log).expect("a folder for logs");
    let mut command = std::process::Command::new(".ci/sums");
    let output = command.arg(&name).current_dir(ROOT).env_remove("RAIDSHMEM_SOAK").output();
    let output = output.expect(".ci/sums runs");
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text.lines().map(str::to_owned).collect())
}

#[test]
fn a_test_that_was_skipped_did_not_pass() {
    let result = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert_eq!(sums(result), (true, vec!["5 passed, 0 failed, 0 skipped".to_owned()]));
    let skip = "SKIPPED: a::b: soak: RAIDSHMEM_SOAK is not set";
    let (well, lines) = sums(&format!("test a::b ... {skip}\n{skip}\n{result}"));
    assert!(well && lines == [skip, "4 passed, 0 failed, 1 skipped"], "{lines:?}");
    // A need that is not in the list is none.
    let (well, lines) = sums(&format!("SKIPPED: a: money: there is none\n{result}"));
    assert!(
        !well && lines.last().is_some_and(|l| l == "4 passed, 1 failed, 1 skipped"),
        "{lines:?}"
    );
    // A test that was skipped for want of something that is here.
    let root = rustix::process::getuid().is_root();
    let (well, lines) = sums(&format!("PARTLY: a: root: not root\n{result}"));
    let wanted = format!("5 passed, {} failed, 0 skipped", u8::from(root));
    assert!(well != root && lines.last() == Some(&wanted), "{lines:?}");
}

// ---- the rules themselves -----------------------------------------------------------------------

fn snippet(text: &str) -> File {
    File { path: "src/snippet.rs".into(), text: text.into() }
}

#[test]
fn rules_see_what_they_are_for() {
    assert_eq!(long_lines(&snippet(&"x".repeat(101))).len(), 1);
    assert!(long_lines(&snippet(&"x".repeat(100))).is_empty());
    assert_eq!(strange_letters(&snippet("a\n\u{e9}\n\tb")).len(), 2);
    assert!(long_file(&snippet(&"\n".repeat(501))).is_some());
    assert!(long_file(&snippet(&"\n".repeat(500))).is_none());
    assert!(no_opening(&snippet("use std::fmt;\n")).is_some());
    assert!(no_opening(&snippet("//! What it is.\n")).is_none());
    for (word, _) in BANNED {
        assert_eq!(banned(&snippet(&format!("a {word} b"))).len(), 1, "{word}");
    }
}

#[test]
fn long_functions_are_found_whatever_is_in_them() {
    let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
    assert!(long_functions(&snippet(&body(68))).is_empty());
    assert_eq!(long_functions(&snippet(&body(69))).len(), 1);
    let strings = format!("fn f(a: &'static str) {{\n'}}'; \"}}\"; r#\"}}\"#; // }}\n{}", body(69));
    assert_eq!(long_functions(&snippet(&format!("{strings}}}"))).len(), 2);
    assert!(long_functions(&snippet("trait T { fn f(); }\n")).is_empty());
}

#[test]
fn unsafe_is_seen_in_code_and_only_there() {
    assert!(has_unsafe(&snippet("fn f() { unsafe { g() } }")));
    assert!(has_unsafe(&snippet("#[unsafe(no_mangle)]")));
    for text in ["// unsafe", "/* unsafe */", "\"unsafe\"", "#![forbid(unsafe_code)]"] {
        assert!(!has_unsafe(&snippet(text)), "{text}");
    }
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
    assert!(up("src/pgas/world.rs", "use crate::heap::Heap;").is_empty());
    assert!(up("src/heap.rs", "//! [`crate::pgas::World`]").is_empty());
    assert_eq!(up("src/unknown.rs", "use crate::sys;").len(), 1);
    let two = ["openshmem", "capi", "shmem"].map(str::to_owned);
    let up = |path: &str, text: &str| upward(&File { path: path.into(), text: text.into() }, &two);
    assert_eq!(up("src/shmem/lock.rs", "use crate::capi::lock::Lock;").len(), 1);
    assert_eq!(up("src/capi/lock.rs", "use crate::shmem::Lock;").len(), 1);
    assert_eq!(up("src/openshmem/lock.rs", "use crate::capi::claims;").len(), 1);
    assert!(up("src/shmem/lock.rs", "use crate::{openshmem::lock::Lock, shmem};").is_empty());
}

#[test]
fn messages_are_found_in_attributes_and_calls() {
    let text = "#[error(\n    \"-n {n}: no room \\\n     for that {}\", show(n)\n)]\n
        world.abort(&format!(\"PE {pe} is gone for good\"));
        #[error(\"{0}\")] misuse(call, \"this PE holds the lock\")";
    let found: BTreeSet<String> = messages(text).into_iter().collect();
    let wanted = [": no room for that", "is gone for good", "this PE holds the lock"];
    assert_eq!(found, wanted.map(str::to_owned).into());
}
