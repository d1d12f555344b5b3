//! The style as a test: each rule of CONTRIBUTING.md is checked here, by a lint, or not at all.
//!
//! Each rule is a pure function from text to complaints. Each file ends with tests that feed its
//! rules with snippets that must fail, so that a rule that stops working is noticed.
//!
//! Exceptions are lists next to their rules, each entry with its reason. An entry that is no longer
//! needed is a failure too, so the lists shrink by themselves and grow only on purpose.
//!
//! `RAIDSHMEM_WRITE_DOCS=1 cargo test --test tidy` writes the table of `docs/settings.md`.
//!
//! ```text
//! files code       source files, and the code in them without comments
//! form             lines, letters, words, lengths, openings
//! unsafety         the files that may contain unsafe code
//! layers           direction of imports; also circles (of files) and pure (the core)
//! names            one word names one type; also methods (per type)
//! prose            comments in plain English
//! policy           lines that ask for the consequences of a loss
//! documents        links, the book, the settings, the manual; also messages (errors.md)
//! monitoring       the dashboard and the alerts of `--metrics`
//! promises         guarantees, and the rules broken on purpose (mutants)
//! sums             the summary of a run
//! ```
//!
//! Left out: rules that rustfmt and clippy check.

mod circles;
mod code;
mod documents;
mod files;
mod form;
mod layers;
mod messages;
mod methods;
mod monitoring;
mod mutants;
mod names;
mod policy;
mod promises;
mod prose;
mod pure;
mod sums;
mod unsafety;
