//! Documents: links, the book, the examples, and the completeness of pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::files::{ROOT, expect_none, page};

#[test]
fn the_settings_page_shows_the_settings_there_are() {
    let begin = "<!-- settings: printed by oshinfo --markdown -->\n";
    let settings = raidshmem_core::settings::markdown();
    shows("docs/settings.md", (begin, "<!-- end of settings -->"), &settings);
}

#[test]
fn the_matrix_shows_which_settings_are_refused() {
    let begin = "<!-- printed from crates/core/src/capability.rs -->\n\n";
    let matrix = raidshmem_core::capability::markdown();
    shows("docs/matrix.md", (begin, "<!-- end of the matrix -->"), &matrix);
}

/// Checks the part of a page between two marks, or writes it.
fn shows(name: &str, (begin, end): (&str, &str), wanted: &str) {
    let text = page(name);
    let (before, rest) = text.split_once(begin).expect("the mark of that part");
    let (shown, after) = rest.split_once(end).expect("its end");
    if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
        let text = format!("{before}{begin}{wanted}{end}{after}");
        return fs::write(Path::new(ROOT).join(name), text).expect("the page is written");
    }
    assert!(
        shown == wanted,
        "{name} is stale: run `RAIDSHMEM_WRITE_DOCS=1 cargo test --test tidy`"
    );
}

/// A setting without a reason to change it should be a constant.
#[test]
fn every_setting_has_a_reason_to_change_it() {
    const REASON_MAX: usize = 80;
    let wrong = |setting: &raidshmem_core::settings::Setting| match setting.reason.len() {
        0 => Some(format!("{}: no reason to change it", setting.name)),
        1..=REASON_MAX => None,
        len => Some(format!("{}: a reason of {len}; expected {REASON_MAX}", setting.name)),
    };
    expect_none(raidshmem_core::settings::table().iter().filter_map(wrong).collect());
}

/// Returns the variants of an enum in a source, as JSON spells them.
fn variants(path: &str, name: &str) -> BTreeSet<String> {
    let text = page(path);
    let (_, rest) = text.split_once(&format!("pub enum {name} {{\n")).expect("the enum");
    let (body, _) = rest.split_once("\n}").expect("its end");
    let word = |line: &str| {
        let line = line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase))?;
        let words = line.split(|c: char| !c.is_alphanumeric()).next()?.char_indices();
        let snake = words.map(|(at, c)| match c.is_uppercase() && at > 0 {
            true => format!("_{}", c.to_lowercase()),
            false => c.to_lowercase().to_string(),
        });
        Some(snake.collect())
    };
    body.lines().filter_map(word).collect()
}

#[test]
fn the_page_on_reports_has_the_events_there_are() {
    let mut events = variants("crates/report/src/event.rs", "What");
    assert!(events.remove("report"), "stands for those of PEs");
    events.extend(variants("crates/core/src/message/progress.rs", "ProgressReport"));
    let text = page("docs/report.md");
    let (_, rest) = text.split_once("| `event` |").expect("the table of events");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    let shown = rows.filter_map(|row| row.split('`').nth(1).map(str::to_owned));
    assert_eq!(shown.collect::<BTreeSet<String>>(), events, "docs/report.md");
}

/// Returns the long options that a text names.
fn options_in(text: &str) -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_lowercase() || c == '-';
    let words = text.split(|c| !part(c)).filter_map(|word| word.strip_prefix("--"));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_manual_and_the_page_have_the_options_there_are() {
    let known = raidshmem_launch::cli::args::known();
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

/// Readers read the first page whole or not at all.
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
        // Every second piece is a fenced block, whose brackets may be those of a program.
        let text: String = page(&document).split("\n```").step_by(2).collect();
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

/// The book has the pages of docs, and the programs that `make book` copies.
#[test]
fn links_that_leave_the_book_lead_to_programs() {
    let mut wrong = Vec::new();
    for document in documents().into_iter().filter(|name| name.starts_with("docs/")) {
        for link in page(&document).split("](../").skip(1) {
            let link = link.split(')').next().unwrap_or(link);
            let copied = ["examples/", "python/examples/"].iter().any(|at| link.starts_with(at));
            if !copied || link.ends_with(".md") {
                wrong.push(format!("{document}: ../{link} is not in the book"));
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

/// Returns the documents of the repository.
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

/// Returns the headings of a document, as links name them.
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
