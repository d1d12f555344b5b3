//! The words of a command line, split into normalised options and the program.
//!
//! Pure: words in, words out. Users of other launchers write `-n4`, `-np 4`, `-hostfile F` and
//! `--np=4`, and all of these work. Every option is normalised to one word, `--name=value` or
//! `-x=value`, so that the parser cannot mistake a value for an option, or the program for either.
//! Words after the program belong to the program.
//!
//! Left out: the meaning of the values.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use raidshmem_core::spelling;

use super::foreign::{self, ForeignOption};

/// An option of this launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its letter.
    pub short: Option<char>,
    /// Its name and aliases.
    pub longs: Vec<String>,
    /// The name of its value, if it takes one.
    pub value: Option<String>,
    /// True if its value may be omitted.
    pub bare: bool,
    /// True if it may be given more than once.
    pub repeats: bool,
}

/// A command line after splitting.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The options, one word each.
    pub options: Vec<OsString>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// A notice for each option that has no meaning here.
    pub needless: Vec<String>,
}

/// A reason why a command line is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// No option has this name.
    #[error("{}: no such option{nearest}; `oshrun --help` lists them", .got.escape_debug())]
    NoOption {
        /// The given word.
        got: String,
        /// The option with the nearest name, as the end of the phrase.
        nearest: String,
    },
    /// An option of another launcher that has an equivalent.
    #[error("{}: an option of other launchers; here {instead}", .got.escape_debug())]
    Foreign {
        /// The given word.
        got: String,
        /// The equivalent to use.
        instead: &'static str,
    },
    /// An option without its value.
    #[error("{option}: expected {option} {value}")]
    NoValue {
        /// The option.
        option: String,
        /// The name of its value.
        value: String,
    },
    /// A value for an option that takes none.
    #[error("{}: expected {option} without a value", .got.escape_debug())]
    Value {
        /// The given word.
        got: String,
        /// The option.
        option: String,
    },
    /// An option that was given twice.
    #[error("{0} is given twice: expected once")]
    Twice(String),
    /// A colon that would begin a second program.
    #[error(
        "`:` begins a second program: expected one program per job, which may branch on \
         shmem_my_pe (after `--` a colon is an argument like any other)"
    )]
    Several,
}

/// Splits the words after the name of the launcher.
///
/// # Errors
/// The first word that is neither an option nor a program.
pub fn split(words: impl Iterator<Item = OsString>, known: &[Known]) -> Result<Words, WordsError> {
    let mut split = Splitter { known, seen: BTreeSet::new(), out: Words::default() };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            split.out.program = words.collect();
            return Ok(split.out);
        }
        if bytes.len() < 2 || bytes[0] != b'-' {
            let program: Vec<OsString> = std::iter::once(word).chain(words).collect();
            return one_program(&program).map(|()| Words { program, ..split.out });
        }
        split.option(&word, &mut words)?;
    }
    Ok(split.out)
}

/// Rejects a colon followed by an option, with which other launchers begin a second program.
fn one_program(program: &[OsString]) -> Result<(), WordsError> {
    let begins = |pair: &[OsString]| pair[0] == ":" && pair[1].as_bytes().starts_with(b"-n");
    match program.windows(2).any(begins) {
        true => Err(WordsError::Several),
        false => Ok(()),
    }
}

struct Splitter<'a> {
    known: &'a [Known],
    seen: BTreeSet<usize>,
    out: Words,
}

impl Splitter<'_> {
    /// Processes one word that begins like an option, taking its value from `rest` if needed.
    fn option(
        &mut self,
        word: &OsStr,
        rest: &mut Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<(), WordsError> {
        let bytes = word.as_bytes();
        let at = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
        let (name, value) = (&bytes[..at], bytes.get(at + 1..));
        let name = String::from_utf8_lossy(name).into_owned();
        let bare = name.trim_start_matches('-');
        // Other launchers use long names with one dash.
        let long = |known: &Known| bare.len() > 1 && known.longs.iter().any(|long| long == bare);
        if let Some(at) = self.known.iter().position(long) {
            return self.take((at, &name), value.map(<[u8]>::to_vec), rest);
        }
        if name.starts_with("--") {
            return self.stranger(&name, value.is_some(), rest);
        }
        // A foreign option's name takes precedence over combined letters.
        if bare.len() > 1 && foreign::find(&name).is_some() {
            return self.stranger(&name, value.is_some(), rest);
        }
        self.letters(word, rest)
    }

    /// Processes letters, such as `-v`, `-vq` or `-n4`.
    fn letters(
        &mut self,
        word: &OsStr,
        rest: &mut Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<(), WordsError> {
        let bytes = &word.as_bytes()[1..];
        for (at, &byte) in bytes.iter().enumerate() {
            let letter = char::from(byte);
            let Some(index) = self.known.iter().position(|known| known.short == Some(letter))
            else {
                let name = if at == 0 { format!("-{letter}") } else { text(word) };
                let name = if foreign::find(&name).is_some() { name } else { text(word) };
                return self.stranger(&name, at == 0 && bytes.len() > 1, rest);
            };
            let name = format!("-{letter}");
            if self.known[index].value.is_none() {
                self.take((index, &name), None, rest)?;
                continue;
            }
            let glued = &bytes[at + 1..];
            let glued = glued.strip_prefix(b"=").unwrap_or(glued);
            let value = (bytes.len() > at + 1).then(|| glued.to_vec());
            return self.take((index, &name), value, rest);
        }
        Ok(())
    }

    fn take(
        &mut self,
        (index, name): (usize, &str),
        value: Option<Vec<u8>>,
        rest: &mut Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<(), WordsError> {
        let known = &self.known[index];
        let (option, got) = (name.to_owned(), || value.clone().map(OsString::from_vec));
        if !known.repeats && !self.seen.insert(index) {
            return Err(WordsError::Twice(option));
        }
        let mut word = match (known.longs.first(), known.short) {
            (Some(long), _) => OsString::from(format!("--{long}")),
            (None, Some(letter)) => OsString::from(format!("-{letter}")),
            (None, None) => return Ok(()),
        };
        match (&known.value, got()) {
            (None, None) => {}
            (None, Some(value)) => {
                let got = format!("{name}={}", text(&value));
                return Err(WordsError::Value { got, option });
            }
            (Some(value), given) => {
                let given = match given {
                    None if known.bare => rest.next_if(|next| !is_option(next)),
                    None => rest.next(),
                    given => given,
                };
                if given.is_none() && known.bare {
                    self.out.options.push(word);
                    return Ok(());
                }
                let no_value = || WordsError::NoValue { option, value: value.clone() };
                let given = given.ok_or_else(no_value)?;
                word.push("=");
                word.push(given);
            }
        }
        self.out.options.push(word);
        Ok(())
    }

    /// Handles an option of another launcher. Ignores one that is unnecessary here, along with its
    /// value.
    fn stranger(
        &mut self,
        name: &str,
        has_value: bool,
        rest: &mut Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<(), WordsError> {
        match foreign::find(name) {
            Some(ForeignOption::Instead(instead)) => {
                Err(WordsError::Foreign { got: name.to_owned(), instead })
            }
            Some(ForeignOption::Needless { values, why }) => {
                rest.take(if has_value { 0 } else { values }).for_each(drop);
                let name = name.escape_debug();
                self.out.needless.push(format!("{name}: not needed here, and left out: {why}"));
                Ok(())
            }
            None => {
                let nearest = self.nearest(name).map(|long| format!(", nearest is --{long}"));
                let nearest = nearest.unwrap_or_default();
                Err(WordsError::NoOption { got: name.to_owned(), nearest })
            }
        }
    }

    /// Returns the known name that was probably meant.
    fn nearest(&self, name: &str) -> Option<&str> {
        let bare = name.strip_prefix("--")?;
        let names = self.known.iter().flat_map(|known| &known.longs).map(String::as_str);
        spelling::nearest(names, |long| spelling::likeness(bare, long), 0.6)
    }
}

/// Returns true if the word is an option rather than a value; a number is a value.
fn is_option(word: &OsStr) -> bool {
    word.as_bytes()
        .strip_prefix(b"-")
        .is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_digit))
}

fn text(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Known> {
        let one = |short: Option<char>, longs: &[&str], value: Option<&str>, repeats| Known {
            short,
            longs: longs.iter().map(|long| (*long).to_owned()).collect(),
            value: value.map(str::to_owned),
            bare: longs == ["dump"],
            repeats,
        };
        vec![
            one(Some('n'), &["np"], Some("N"), false),
            one(Some('H'), &["hosts", "host"], Some("LIST"), false),
            one(Some('x'), &[], Some("VAR"), true),
            one(None, &["kill"], Some("RULE"), true),
            one(None, &["hostfile"], Some("FILE"), false),
            one(Some('v'), &["verbose"], None, true),
            one(Some('q'), &["quiet"], None, true),
            one(None, &["dump"], Some("JOB"), false),
        ]
    }

    fn of(words: &[&str]) -> Result<Words, WordsError> {
        split(words.iter().map(OsString::from), &known())
    }

    #[track_caller]
    fn options(words: &[&str], wanted: &[&str]) {
        let found = of(&[words, &["prog", "-n", "9"]].concat()).unwrap();
        assert_eq!(found.options, wanted, "{words:?}");
        assert_eq!(found.program, ["prog", "-n", "9"], "{words:?}");
    }

    #[test]
    fn options_are_read_in_common_spellings() {
        for words in [&["-n", "4"][..], &["-n4"], &["-n=4"], &["-np", "4"], &["--np", "4"]] {
            options(words, &["--np=4"]);
        }
        options(&["--np=4", "-Ha,b"], &["--np=4", "--hosts=a,b"]);
        options(&["-host", "a", "-v"], &["--hosts=a", "--verbose"]);
        options(&["-hostfile", "f", "-vq"], &["--hostfile=f", "--verbose", "--quiet"]);
        options(&["-vn4"], &["--verbose", "--np=4"]);
        options(&["-xA=1", "-x", "B", "-x", "=1"], &["-x=A=1", "-x=B", "-x==1"]);
        options(&["--kill", "1@2", "--kill=2@3"], &["--kill=1@2", "--kill=2@3"]);
        options(&["-n", "-3"], &["--np=-3"]);
        options(&["-n", ""], &["--np="]);
    }

    #[test]
    fn a_value_that_may_be_omitted_is_taken_if_it_is_there() {
        for (words, wanted) in [
            (&["--dump"][..], &["--dump"][..]),
            (&["--dump", "7"], &["--dump=7"]),
            (&["--dump=7"], &["--dump=7"]),
            (&["--dump", "-3"], &["--dump=-3"]),
            (&["--dump", "-v"], &["--dump", "--verbose"]),
            (&["-v", "--dump"], &["--verbose", "--dump"]),
        ] {
            let found = of(words).unwrap();
            assert_eq!(found.options, wanted, "{words:?}");
            assert_eq!(found.program, [""; 0], "{words:?}");
        }
    }

    #[test]
    fn words_after_the_program_belong_to_it() {
        assert_eq!(of(&["--", "-n", ":", "-n"]).unwrap().program, ["-n", ":", "-n"]);
        assert_eq!(of(&["-v", "p", "--", "-z"]).unwrap().program, ["p", "--", "-z"]);
        assert_eq!(of(&["p", ":", "q"]).unwrap().program, ["p", ":", "q"]);
        assert_eq!(of(&["-v"]).unwrap().program, [""; 0]);
        assert_eq!(of(&["-v", ""]).unwrap().program, [""]);
        for second in ["-n", "-np", "-n4"] {
            assert_eq!(of(&["-n2", "p", ":", second, "2", "q"]), Err(WordsError::Several));
        }
    }

    #[test]
    fn unknown_options_are_refused_by_name() {
        for (words, line) in [
            (&["-z", "p"][..], "-z: no such option; `oshrun --help` lists them"),
            (&["--kil", "p"], "--kil: no such option, nearest is --kill; `oshrun --help` lists"),
            (&["-vz", "p"], "-vz: no such option;"),
            (&["--np"], "--np: expected --np N"),
            (&["-n"], "-n: expected -n N"),
            (&["--verbose=3", "p"], "--verbose=3: expected --verbose without a value"),
            (&["-n2", "--np", "3", "p"], "--np is given twice: expected once"),
        ] {
            let error = of(words).unwrap_err().to_string();
            assert!(error.starts_with(line), "{words:?}: {error}");
        }
    }

    #[test]
    fn options_of_other_launchers_name_their_equivalent() {
        for (words, instead) in [
            (&["--bind-to", "core", "p"][..], "--bind core"),
            (&["--mca", "a", "b", "p"], "SHMEM_FT_"),
            (&["-mca", "a", "b", "p"], "SHMEM_FT_"),
            (&["--ntasks=4", "p"], "-n 4"),
            (&["-ppn", "2", "p"], "-N 2"),
            (&["-f", "hosts", "p"], "--hostfile"),
            (&["-fhosts", "p"], "--hostfile"),
            (&["-machinefile", "hosts", "p"], "--hostfile"),
            (&["-c", "2", "p"], "-n"),
        ] {
            let error = of(words).unwrap_err().to_string();
            let (name, line) = error.split_once(": ").unwrap();
            assert!(words[0].starts_with(name), "{error}");
            assert!(line.starts_with("an option of other launchers; here "), "{error}");
            assert!(line.contains(instead), "{error}");
        }
    }

    #[test]
    fn options_that_need_not_be_are_ignored_with_their_values() {
        let words = ["--oversubscribe", "--mpi", "pmix", "--cpus-per-task=2", "-n2", "p"];
        let found = of(&words).unwrap();
        assert_eq!(found.options, ["--np=2"]);
        assert_eq!(found.program, ["p"]);
        assert_eq!(found.needless.len(), 3);
        assert!(found.needless[0].starts_with("--oversubscribe: not needed here, and left out: "));
        assert!(found.needless[1].starts_with("--mpi: "), "{:?}", found.needless);
    }
}
