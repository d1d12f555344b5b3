//! Lines, letters and words; lengths of files and functions; the openings of files.

use super::code::{code_only, line_of, words};
use super::files::{CRATES, File, expect_none, others, rust, snippet, sources};

const COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Files longer than the limit that still exist.
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

/// Files that write `Debug` text for a reader other than a person.
const DEBUG_TEXT: &[(&str, &str)] = &[
    ("crates/control/src/trace.rs", "tracing hands over words so"),
    ("crates/runtime/src/pgas/world/fewer.rs", "an implementation of Debug"),
    ("crates/core/src/membership/drawing.rs", "a test, which compares by it"),
    ("crates/core/src/protocol/mod.rs", "the drawing names states as the table does"),
    ("crates/core/src/store/advice.rs", "a list of TOML"),
];

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

fn banned(file: &File) -> Vec<String> {
    let hits = |&(word, why): &(&str, &str)| -> Vec<String> {
        let say = |(at, _)| format!("{}:{}: `{word}`: {why}", file.path, line_of(&file.text, at));
        file.text.match_indices(word).map(say).collect()
    };
    BANNED.iter().flat_map(hits).collect()
}

/// Returns lines that print a value as Rust writes it, outside of tests, and of asserts for our
/// bugs.
fn debug_text(file: &File) -> Vec<String> {
    let text = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let prints = |(_, line): &(usize, &str)| {
        let bug = ["unreachable!", "assert", "panic!"].iter().any(|word| line.contains(word));
        let comment = line.trim_start().starts_with("//");
        (line.contains(":?}") || line.contains(":#?}")) && !bug && !comment
    };
    let say = |(n, _)| format!("{}:{}: text of Debug: give its type a Display", file.path, n + 1);
    text.lines().enumerate().filter(prints).map(say).collect()
}

#[test]
fn people_read_no_text_of_debug() {
    let tests = |path: &str| path.contains("/explore") || path.ends_with("tests.rs");
    let of_tests = |path: &str| tests(path) || path.contains("/tests/");
    let (mut wrong, mut needed) = (Vec::new(), Vec::new());
    for file in rust(CRATES).iter().filter(|file| !of_tests(&file.path)) {
        let found = debug_text(file);
        match DEBUG_TEXT.iter().find(|(path, _)| *path == file.path) {
            Some((path, _)) if !found.is_empty() => needed.push(*path),
            _ => wrong.extend(found),
        }
    }
    let spare = DEBUG_TEXT.iter().filter(|(path, _)| !needed.contains(path));
    wrong.extend(spare.map(|(path, _)| format!("DEBUG_TEXT: {path} prints none by now")));
    expect_none(wrong);
}

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

/// The field's own words exist for these: `docs/glossary.md` has the few that are ours.
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

#[test]
fn rules_see_what_they_are_for() {
    assert_eq!(long_lines(&snippet(&"x".repeat(101))).len(), 1);
    assert!(long_lines(&snippet(&"x".repeat(100))).is_empty());
    assert_eq!(strange_letters(&snippet("a\n\u{e9}\n\tb")).len(), 2);
    assert!(long_file(&snippet(&"\n".repeat(501))).is_some());
    assert!(long_file(&snippet(&"\n".repeat(500))).is_none());
    assert!(no_opening(&snippet("use std::fmt;\n")).is_some());
    assert!(no_opening(&snippet("//! What it is.\n")).is_none());
    assert_eq!(debug_text(&snippet("info!(\"{at:?}\");\nwrite!(f, \"{:#?}\", self);\n")).len(), 2);
    assert!(
        debug_text(&snippet("assert!(a, \"{b:?}\");\n#[cfg(test)]\nmod tests {\n{:?}")).is_empty()
    );
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
