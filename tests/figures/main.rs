//! Tables of figures in documents, which match the records that they name.
//!
//! ```text
//! <!-- figures: benches/record/KIND/DATE.json -->              all figures of a record
//! <!-- figures: benches/record/KIND/DATE.json: NAME; NAME -->  figures with these name prefixes
//! <!-- figures: benches/record/KIND/FOLDER/NAME.csv -->        a table, verbatim
//! ...
//! <!-- end of figures -->
//! ```
//!
//! `RAIDSHMEM_WRITE_DOCS=1 cargo test --test figures` writes them. Invariant: for a figure that
//! misses its goal in a table of `benches/README.md`, the table under `## Why some miss` there
//! gives the reason; its first column names figures in the same way. `benches/scorecard.svg` shows
//! the first table of that document.
//!
//! `whitepaper/figures.typ`, which [`paper`] prints, holds the paper's figures.
//!
//! Left out: figures in running text, except in the paper.

#![forbid(unsafe_code)]

use std::path::Path;

use serde_json::Value;

mod paper;
mod peers;
#[path = "../../benches/advise/plot.rs"]
mod plot;
mod reliability;

const DOCUMENTS: [&str; 3] = ["README.md", "benches/README.md", APPLICATIONS];
/// A document with tables of CSV only, which has no figures with goals.
const APPLICATIONS: &str = "docs/applications.md";
const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the figures of a record: all, or those whose names begin with one of `names`.
fn figures(record: &str, names: Option<&str>) -> Vec<Value> {
    let record: Value = serde_json::from_str(&page(record)).expect("a record is JSON");
    let all = record["figures"].as_array().expect("a list of figures").clone();
    let Some(names) = names else { return all };
    let named = |name: &str| {
        let begins = |figure: &&Value| name_of(figure).starts_with(name);
        let found: Vec<Value> = all.iter().filter(begins).cloned().collect();
        assert!(!found.is_empty(), "no figure begins with {name:?}");
        found
    };
    names.split("; ").flat_map(named).collect()
}

fn name_of(figure: &Value) -> &str {
    figure["figure"].as_str().expect("a name")
}

fn is_met(figure: &Value) -> bool {
    figure["met"].as_bool().expect("met or not")
}

/// Rounds to three digits, the precision of medians of a few rounds.
fn rounded(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        1.0..10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn row(figure: &Value) -> String {
    let number = |key: &str| figure[key].as_f64().expect("a number");
    let most = if figure["direction"] == "min" { "at most" } else { "at least" };
    let (measured, goal) = (rounded(number("measured")), number("goal"));
    let missed = if is_met(figure) { "" } else { ", missed" };
    let peer = figure["peer"].as_str().expect("a peer");
    format!("| {} | {measured} | {most} {goal}{missed} | {peer} |\n", name_of(figure))
}

/// Returns figures of a record, and their table.
fn with_goals(record: &str, names: Option<&str>) -> (Vec<Value>, String) {
    let figures = figures(record, names);
    let rows: String = figures.iter().map(row).collect();
    let heading = "| figure | measured | goal | compared with |\n| --- | --- | --- | --- |\n";
    (figures, format!("{heading}{rows}"))
}

/// Returns the table of a CSV.
fn csv(text: &str) -> String {
    let (heading, lines) = paper::rows(text);
    let row = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = row(&vec!["---".to_owned(); heading.len()]);
    row(&heading) + &rule + &lines.iter().map(row).collect::<String>()
}

/// Returns `text` with up-to-date tables, and the figures in them.
fn renewed(text: &str) -> (String, Vec<Value>) {
    let mut pieces = text.split(BEGIN);
    let mut renewed = pieces.next().expect("a piece at least").to_owned();
    let mut shown = Vec::new();
    for piece in pieces {
        let (head, rest) = piece.split_once(" -->\n").expect("a mark that ends");
        let (_, after) = rest.split_once(END).expect("a table that ends");
        let (record, names) = match head.split_once(": ") {
            Some((record, names)) => (record, Some(names)),
            None => (head, None),
        };
        let (figures, table) = match record.ends_with(".csv") {
            true => (Vec::new(), csv(&page(record))),
            false => with_goals(record, names),
        };
        renewed += &format!("{BEGIN}{head} -->\n{table}{END}{after}");
        shown.extend(figures);
    }
    (renewed, shown)
}

/// Plots each figure's distance from its goal, as bars on a scale of powers of two: to the right of
/// the line it is better than the goal, to the left it misses it.
fn plot(figures: &[Value]) -> String {
    const ROW: usize = 17;
    const LINE: f64 = 420.0;
    const OCTAVE: f64 = 110.0;
    let height = figures.len() * ROW + 40;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 780 {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"780\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mark = |factor: f64, text: &str| {
        let (x, bottom) = (LINE + OCTAVE * factor.log2(), height - 22);
        format!(
            "<line x1=\"{x:.0}\" x2=\"{x:.0}\" y1=\"8\" y2=\"{bottom}\" stroke=\"#ccc\"/>\
             <text x=\"{x:.0}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{text}</text>\n",
            height - 7
        )
    };
    svg += &[(0.5, "half as good"), (1.0, "goal"), (2.0, "twice as good"), (4.0, "4 times")]
        .map(|(factor, text)| mark(factor, text))
        .concat();
    for (index, figure) in figures.iter().enumerate() {
        let number = |key: &str| figure[key].as_f64().expect("a number");
        let better = number("measured") / number("goal");
        let better = if figure["direction"] == "min" { 1.0 / better } else { better };
        let end = LINE + OCTAVE * better.log2().clamp(-1.5, 3.0);
        let (from, width) = (LINE.min(end), (end - LINE).abs().max(1.0));
        let colour = if is_met(figure) { "#4878a8" } else { "#c2703d" };
        let (top, base) = (index * ROW + 10, index * ROW + 22);
        let name = name_of(figure).replace('&', "&amp;").replace('<', "&lt;");
        svg += &format!(
            "<text x=\"8\" y=\"{base}\" fill=\"#333\">{name}</text>\
             <rect x=\"{from:.0}\" y=\"{top}\" width=\"{width:.0}\" height=\"12\" \
             fill=\"{colour}\"/>\n"
        );
    }
    svg + "</svg>\n"
}

/// Returns the record of the first table of a document.
fn first_record(text: &str) -> &str {
    let (_, rest) = text.split_once(BEGIN).expect("a table");
    rest.split_once(" -->").expect("a mark that ends").0
}

#[test]
fn the_plot_is_that_of_the_record() {
    let text = page("benches/README.md");
    let wanted = plot(&figures(first_record(&text), None));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/scorecard.svg");
    if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
        std::fs::write(path, wanted).expect("the plot is written");
    } else {
        let how = "RAIDSHMEM_WRITE_DOCS=1 cargo test --test figures";
        assert!(page("benches/scorecard.svg") == wanted, "the plot is stale: run `{how}`");
    }
}

#[test]
fn tables_are_those_of_the_records() {
    for name in DOCUMENTS {
        let text = page(name);
        let (renewed, figures) = renewed(&text);
        let tables = if name == APPLICATIONS { text.matches(BEGIN).count() } else { figures.len() };
        assert!(tables > 0, "{name} has no table of figures");
        if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            std::fs::write(path, renewed).expect("a document is written");
        } else {
            let how = "RAIDSHMEM_WRITE_DOCS=1 cargo test --test figures";
            assert!(text == renewed, "{name}: a table is not that of its record: run `{how}`");
        }
    }
}

#[test]
fn every_miss_has_its_reason() {
    let text = page("benches/README.md");
    let (_, reasons) = text.split_once("## Why some miss\n").expect("the reasons");
    let reasons = reasons.split("\n## ").next().expect("a piece at least");
    let cells = |row: &str| {
        let (names, reason) = row.strip_prefix("| ")?.split_once(" | ")?;
        (reason.len() > 20).then(|| names.to_owned())
    };
    let explained: Vec<String> = reasons.lines().filter_map(cells).collect();
    let explained: Vec<&str> = explained.iter().flat_map(|names| names.split("; ")).collect();
    let is_explained = |name: &str| explained.iter().any(|begin| name.starts_with(begin));
    let (_, figures) = renewed(&text);
    let missed = figures.iter().filter(|figure| !is_met(figure));
    let silent: Vec<&str> = missed.map(name_of).filter(|name| !is_explained(name)).collect();
    assert!(silent.is_empty(), "no reason is given for: {}", silent.join("; "));
}

#[test]
fn a_stale_table_is_seen() {
    let record = "benches/record/amd-epyc-gfni512/2026-11-22-00-32-24.json";
    let text = format!("before\n{BEGIN}{record}: verbs, 8-byte get -->\nstale\n{END}\nafter\n");
    let (renewed, figures) = renewed(&text);
    assert_eq!((figures.len(), is_met(&figures[0])), (1, false));
    let row = "| verbs, 8-byte get / tool | 1.21 | at most 1.2, missed | ib_read_lat |\n";
    assert!(renewed.contains(row), "{renewed}");
    assert!(renewed.starts_with("before\n") && renewed.ends_with(&format!("{END}\nafter\n")));
}

/// The plots of the adviser's findings match its newest record.
#[test]
fn plots_of_the_adviser_are_those_of_its_record() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/record");
    let names = std::fs::read_dir(folder)
        .expect("records")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let newest = names.filter(|name| name.starts_with("advise-")).max().expect("a record");
    let text = page(&format!("benches/record/{newest}"));
    let record: Value = serde_json::from_str(&text).expect("a record is JSON");
    for program in record["programs"].as_array().expect("programs") {
        let name = program["name"].as_str().expect("a name");
        let drawn = page(&format!("benches/advise/{name}.svg"));
        let same = drawn == plot::plot(program);
        assert!(same, "{name}.svg: `cargo bench --bench advise -- --plot RECORD` draws it");
    }
}

#[test]
fn figures_of_the_paper_are_those_of_the_records() {
    let wanted = paper::figures();
    if std::env::var_os("RAIDSHMEM_WRITE_DOCS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("whitepaper/figures.typ");
        std::fs::write(path, wanted).expect("the figures are written");
    } else {
        let how = "RAIDSHMEM_WRITE_DOCS=1 cargo test --test figures";
        let same = page("whitepaper/figures.typ") == wanted;
        assert!(same, "whitepaper/figures.typ is not what the records say: run `{how}`");
    }
}

#[test]
fn the_paper_states_no_figure_of_its_own() {
    for name in ["paper", "evaluation", "appendix", "related", "thesis"] {
        let name = format!("whitepaper/{name}.typ");
        let own = paper::own_numbers(&page(&name));
        assert!(own.is_empty(), "{name}: take these from figures.typ:\n{}", own.join("\n"));
    }
    let seen = paper::own_numbers("a checkpoint takes 12 ms\nof 1.78 copies\nin 4 groups of 8\n");
    assert_eq!(seen.len(), 2, "{seen:?}");
}
