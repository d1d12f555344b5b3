//! The scorecard: every figure that this library promises, compared with real peers, in one run.
//!
//! `make scorecard`, or `make scorecard-quick` for fewer rounds of smaller runs. Prints a table
//! `figure | measured | goal | limit | peer` and writes `target/scorecard.json`: a list of
//! `{figure, measured, goal, direction, met, peer, runs}`, where `direction` is `min` or `max` for
//! the best value.
//!
//! Every figure is a ratio, or a time that a person waits for; ratios are formed within a round, in
//! which both sides alternate, and the median over the rounds is reported. A figure that misses its
//! goal is printed as missed; `benches/README.md` gives the reasons.
//!
//! Left out: verdicts. The exit status is 0 if every figure could be measured, met or not.

#[path = "../evaluation/chart.rs"]
mod chart;
mod codec;
mod disk;
mod fewer;
mod figure;
mod guests;
mod jacobi;
mod network;
mod peer;
mod programs;
mod record;
mod small;
mod store;

// Emulated machines, shared with the tests.
#[path = "../../tests/guests/image.rs"]
mod image;
#[path = "../../tests/guests/machine.rs"]
#[allow(dead_code, reason = "tests ask more of them")]
mod machine;
#[path = "../../tests/guests/switch.rs"]
mod switch;

// Names of network namespaces, shared with the tests.
#[path = "../../tests/support/namespaces.rs"]
mod namespaces;

use std::process::ExitCode;

use figure::Figure;
use programs::{Bench, Trouble};

const USAGE: &str = "usage: scorecard [--quick] [--record] [--guests] [--only SECTION] [--out FILE]\
    \n       SECTION is codec, small, store, disk, jacobi, fewer, network or guests";

struct Options {
    quick: bool,
    record: bool,
    guests: bool,
    only: Option<String>,
    out: Option<std::path::PathBuf>,
}

fn options(words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut words = words.filter(|word| word != "--bench"); // cargo's own
    let (quick, record, guests, only, out) = Default::default();
    let mut options = Options { quick, record, guests, only, out };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value; {USAGE}"));
        match word.as_str() {
            "--quick" => options.quick = true,
            "--record" => options.record = true,
            "--guests" => options.guests = true,
            "--only" => options.only = Some(value()?),
            "--out" => options.out = Some(value()?.into()),
            _ => return Err(format!("{word}: {USAGE}")),
        }
    }
    Ok(options)
}

type Section = fn(&Bench) -> Result<Vec<Figure>, Trouble>;
const SECTIONS: [(&str, Section); 8] = [
    ("codec", codec::figures),
    ("small", small::figures),
    ("store", store::figures),
    ("disk", disk::figures),
    ("jacobi", jacobi::figures),
    ("fewer", fewer::figures),
    ("network", network::figures),
    ("guests", guests::figures),
];

fn run(options: &Options) -> Result<(), Trouble> {
    let (bench, load) = (Bench::new(options.quick)?, record::load());
    let chosen = |name: &str| match options.only.as_deref() {
        Some(only) => only == name,
        None => name != "guests" || options.guests, // it takes as long as all the others
    };
    let mut figures = Vec::new();
    println!("{}", figure::heading());
    for (name, section) in SECTIONS.iter().filter(|(name, _)| chosen(name)) {
        eprintln!("scorecard: {name}");
        for figure in section(&bench)? {
            println!("{figure}");
            figures.push(figure);
        }
    }
    if figures.is_empty() {
        return Err(Trouble::new(USAGE));
    }
    let missed = figures.iter().filter(|figure| !figure.met()).count();
    println!("{} figures, {missed} missed", figures.len());
    if options.record {
        let context = record::Context::new(options.quick, load);
        if chosen("fewer") {
            record::keep(&bench, &context, ("fewer", &fewer::folder(&bench)))?;
        }
        record::write(&bench, context, &figures)?;
    }
    let out = options.out.clone().unwrap_or(bench.target().join("scorecard.json"));
    let text = serde_json::to_string_pretty(&figures).map_err(Trouble::new)? + "\n";
    std::fs::write(&out, text).map_err(|error| Trouble::new(format!("{}: {error}", out.display())))
}

fn main() -> ExitCode {
    // `cargo test --all-targets` runs benches without `--bench`: then only the pure parts run.
    if !std::env::args().any(|word| word == "--bench") {
        figure::check();
        codec::check();
        guests::check();
        return ExitCode::SUCCESS;
    }
    match options(std::env::args().skip(1)).map_err(Trouble::new).and_then(|o| run(&o)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("scorecard: {trouble}");
            ExitCode::from(2)
        }
    }
}
