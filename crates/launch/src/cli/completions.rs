//! Completions of command lines for shells, printed by each command that has options.

#![forbid(unsafe_code)]

use std::ffi::OsString;

use clap::{Command, ValueEnum};
use clap_complete::Shell;

/// The option, of every command.
const OPTION: &str = "--completions";

/// Returns the script that completes a command line, if the first word asks for it: the option is
/// followed by a shell. The error is the line that refuses another word.
pub fn asked(
    mut words: impl Iterator<Item = OsString>,
    command: impl FnOnce() -> Command,
) -> Option<Result<String, String>> {
    if words.next()?.to_str() != Some(OPTION) {
        return None;
    }
    let shells = "expected bash, elvish, fish, powershell or zsh";
    let shell = match words.next() {
        None => return Some(Err(format!("{OPTION}: {shells}"))),
        Some(word) => word.to_string_lossy().into_owned(),
    };
    Some(match Shell::from_str(&shell, false) {
        Ok(shell) => {
            let (mut command, mut script) = (command(), Vec::new());
            let name = command.get_name().to_owned();
            clap_complete::generate(shell, &mut command, name, &mut script);
            Ok(String::from_utf8_lossy(&script).into_owned())
        }
        Err(_) => Err(format!("{OPTION} {}: {shells}", shell.escape_debug())),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::args::Args;

    fn script(words: &str) -> Option<Result<String, String>> {
        asked(words.split_whitespace().map(OsString::from), Args::command)
    }

    #[test]
    fn each_shell_gets_every_option() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = script(&format!("--completions {shell}")).unwrap().unwrap();
            assert!(script.contains("oshrun") && script.contains("kill-node"), "{script}");
        }
    }

    #[test]
    fn other_words_are_refused_and_other_options_are_not_touched() {
        assert_eq!(script("-n 4 --completions"), None);
        assert_eq!(script(""), None);
        let refused = script("--completions tcsh").unwrap().unwrap_err();
        assert!(refused.starts_with("--completions tcsh: expected bash, "), "{refused}");
        assert!(script("--completions").unwrap().unwrap_err().starts_with("--completions: "));
    }
}
