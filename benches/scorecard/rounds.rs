//! A bench that measures in rounds and records one table: its options, its record and its end.
//!
//! Left out: benches with more options or several tables.

use std::process::ExitCode;

use serde::Serialize;

use super::programs::{Bench, Trouble};
use super::record;

/// The options of such a bench.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub tiny: bool,
    pub record: bool,
    pub rounds: usize,
}

impl Options {
    /// Parses the words after the program; `rounds` is the default.
    fn parse(
        name: &str,
        words: impl Iterator<Item = String>,
        rounds: usize,
    ) -> Result<Options, Trouble> {
        let usage = format!("usage: {name} [--tiny] [--record] [--rounds N]");
        let mut words = words.filter(|word| word != "--bench"); // cargo's own
        let mut options = Options { tiny: false, record: false, rounds };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--tiny" => (options.tiny, options.rounds) = (true, 1),
                "--record" => options.record = true,
                "--rounds" => {
                    let value = words.next().unwrap_or_default();
                    let number = value.parse::<usize>().ok().filter(|&n| n > 0);
                    options.rounds = number.ok_or_else(|| {
                        Trouble::new(format!("--rounds {value}: expected at least 1; {usage}"))
                    })?;
                }
                _ => return Err(Trouble::new(format!("{word}: {usage}"))),
            }
        }
        Ok(options)
    }
}

/// Runs the bench `name`, with `rounds` rounds unless its command line has another number; only its
/// `check` under `cargo test --all-targets`, which passes no `--bench`.
pub fn main(
    (name, rounds): (&str, usize),
    check: fn(),
    evaluate: fn(Options) -> Result<(), Trouble>,
) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        check();
        return ExitCode::SUCCESS;
    }
    match Options::parse(name, words.into_iter(), rounds).and_then(evaluate) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("{name}: {trouble}");
            ExitCode::from(2)
        }
    }
}

/// Prints a table, and writes it and its setting to `target/<name>`, and next to the records if
/// that was requested.
pub fn write(
    (bench, name): (&Bench, &str),
    options: Options,
    context: &record::Context,
    (csv, setting): (&str, &impl Serialize),
) -> Result<(), Trouble> {
    let (kind, date) = record::place(bench, context);
    let text = serde_json::to_string_pretty(setting).map_err(Trouble::new)? + "\n";
    let kept = options.record.then(|| kind.join(format!("{name}-{date}")));
    for folder in std::iter::once(bench.target().join(name)).chain(kept) {
        record::save(&folder, &format!("{name}.csv"), csv)?;
        record::save(&folder, "context.json", &text)?;
    }
    print!("{csv}");
    Ok(())
}
