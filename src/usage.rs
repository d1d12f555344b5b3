//! Errors of clap about a command line, as one line in the style of `oshrun`.
//!
//! Invariant: the line names the invalid argument and the expectation. The parsers of values return
//! `expected ..`, and this module puts the option and the value before it.
//!
//! Left out: `oshrun` itself, which reads its arguments by its own table.

#![forbid(unsafe_code)]

use std::io::Write;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use raidshmem_launch::cli::completions;

/// Prints completions for a shell and exits, if the command line asks for them.
pub fn print_completions(program: &str, command: impl FnOnce() -> clap::Command) {
    match completions::asked(std::env::args_os().skip(1), command) {
        None => {}
        Some(Ok(script)) => {
            // A reader that closes the pipe has seen enough.
            let _ = std::io::stdout().write_all(script.as_bytes());
            std::process::exit(0)
        }
        Some(Err(line)) => {
            eprintln!("{program}: {line}");
            std::process::exit(2)
        }
    }
}

/// Returns the line for the program of that name, which refers to its `--help`.
pub fn line(program: &str, error: &Error) -> String {
    let of = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (option, value) = (of(ContextKind::InvalidArg), of(ContextKind::InvalidValue));
    let shown = value.escape_debug();
    let name = option.split([' ', '=']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            format!("{} missing; `{program} --help` says more", missing(error))
        }
        ErrorKind::UnknownArgument => {
            let near = error.get(ContextKind::SuggestedArg);
            let near = near.map(|near| format!(", nearest is {near}")).unwrap_or_default();
            let what = if option.starts_with('-') { "such option" } else { "word expected here" };
            let option = option.escape_debug();
            format!("{option}: no {what}{near}; `{program} --help` lists the options")
        }
        ErrorKind::ArgumentConflict => format!("{name} is given twice: expected once"),
        ErrorKind::InvalidValue if value.is_empty() => format!("{name}: expected {option}"),
        ErrorKind::ValueValidation if !option.is_empty() => {
            let why = std::error::Error::source(error).map(ToString::to_string);
            format!("{name} {shown}: {}", why.unwrap_or_default())
        }
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// Returns the subject of a message: `--a A is`, or `--a A, --b B are`.
fn missing(error: &Error) -> String {
    let names = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.as_slice(),
        _ => &[],
    };
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[arg(long, value_name = "N", value_parser = number)]
        size: u8,
        #[arg(long)]
        other: Option<String>,
        file: String,
    }

    fn number(text: &str) -> Result<u8, String> {
        text.parse().map_err(|_| "expected 0 to 255".to_owned())
    }

    #[test]
    fn every_mistake_names_the_culprit() {
        let refused = |words: &str| {
            let words = std::iter::once("tool").chain(words.split_whitespace());
            line("tool", &Args::try_parse_from(words).unwrap_err())
        };
        let more = "`tool --help` says more";
        assert_eq!(refused(""), format!("--size <N>, <FILE> are missing; {more}"));
        assert_eq!(refused("--size 1"), format!("<FILE> is missing; {more}"));
        assert_eq!(refused("--size 256 f"), "--size 256: expected 0 to 255");
        assert_eq!(refused("f --size"), "--size: expected --size <N>");
        assert_eq!(refused("--size 1 --size 2 f"), "--size is given twice: expected once");
        let list = "`tool --help` lists the options";
        assert_eq!(
            refused("--sise 1 f"),
            format!("--sise: no such option, nearest is --size; {list}")
        );
        assert_eq!(refused("--size 1 f g"), format!("g: no word expected here; {list}"));
        assert_eq!(refused("--size 1 f -x"), format!("-x: no such option; {list}"));
    }
}
