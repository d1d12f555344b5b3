//! Reasons why a job is rejected before it starts: one line each, which names the culprit.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::hosts::HostsError;
use super::words::WordsError;
use raidshmem_core::inject::RuleError;
use raidshmem_core::placement::file;
use raidshmem_core::settings::SettingError;
use raidshmem_core::store::protection::ProtectionError;
use raidshmem_core::view::PES_MAX;
use raidshmem_fabric::FabricError;
use raidshmem_sys::input::FILE_MAX;

/// A reason why a job is rejected before it starts.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// `-n` out of range.
    #[error("-n {}: expected 1 to {PES_MAX}", .got.escape_debug())]
    Pes {
        /// The given value.
        got: String,
    },
    /// `--nodes` out of range.
    #[error("--nodes {}: expected 1 to {most} (at most one per PE)", .got.escape_debug())]
    Nodes {
        /// The given value.
        got: String,
        /// The number of PEs.
        most: usize,
    },
    /// `-N` out of range.
    #[error(
        "-N {}: expected 1 to {PES_MAX}, with --hosts or in a Slurm allocation",
        .got.escape_debug()
    )]
    PerHost {
        /// The given value.
        got: String,
    },
    /// Two options that contradict each other.
    #[error("{one} and {other}: expected one of the two")]
    Contradiction {
        /// An option.
        one: &'static str,
        /// Another.
        other: &'static str,
    },
    /// An option without the one that it belongs to.
    #[error("{option}: expected together with {with}")]
    Alone {
        /// The option.
        option: &'static str,
        /// The missing option.
        with: &'static str,
    },
    /// `--launch-agent` without `{host}`, or `--listen` with an invalid address.
    #[error("{option} `{}`: {expected}", .got.escape_debug())]
    Option {
        /// The option.
        option: &'static str,
        /// The given value.
        got: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// `--metrics` with an invalid or unavailable endpoint.
    #[error("--metrics {}: {why}", .got.escape_debug())]
    Metrics {
        /// The given value.
        got: String,
        /// The error.
        why: String,
    },
    /// An invalid list of hosts.
    #[error("{0}")]
    Hosts(#[from] HostsError),
    /// Too many spares.
    #[error("--spares {}: expected 0 to {PES_MAX}", .got.escape_debug())]
    Spares {
        /// The given value.
        got: String,
    },
    /// An option with an invalid fault rule.
    #[error("{option}: {source}")]
    Rule {
        /// `--kill` or `--kill-node`.
        option: &'static str,
        /// The error in the rule.
        source: RuleError,
    },
    /// An invalid command line.
    #[error("{0}")]
    Words(#[from] WordsError),
    /// The parser's error for a word that is not valid text.
    #[error("{0}")]
    Parser(String),
    /// No program was given.
    #[error(
        "no program: expected oshrun -n N [options] PROGRAM [ARGUMENTS]; `oshrun --help` says more"
    )]
    NothingToRun,
    /// An option that makes a setting has an invalid value.
    #[error("{option} {}: expected {allowed}", .got.escape_debug())]
    OptionValue {
        /// The option.
        option: &'static str,
        /// The given value.
        got: String,
        /// The accepted values.
        allowed: String,
    },
    /// `-x` without a name.
    #[error("-x {}: expected VAR or VAR=VALUE", .got.escape_debug())]
    Variable {
        /// The given value.
        got: String,
    },
    /// `--timeout` with an invalid time.
    #[error("--timeout {}: expected seconds, 0.001 to 1000000000", .got.escape_debug())]
    Timeout {
        /// The given value.
        got: String,
    },
    /// `--stdin` for a PE other than 0.
    #[error("--stdin {}: expected 0 (PE 0 reads the standard input) or none", .got.escape_debug())]
    Stdin {
        /// The given value.
        got: String,
    },
    /// `--stop-signal` with a signal that is not accepted.
    #[error("--stop-signal {}: expected USR1, USR2, QUIT, TERM, INT or HUP", .got.escape_debug())]
    StopSignal {
        /// The given value.
        got: String,
    },
    /// A folder or file that cannot be used.
    #[error(
        "{option} {}: {error}: expected {expected}",
        .path.display().to_string().escape_debug()
    )]
    Folder {
        /// The option.
        option: &'static str,
        /// Its path.
        path: PathBuf,
        /// The kernel's error.
        error: std::io::Error,
        /// The expected kind of file.
        expected: &'static str,
    },
    /// A file of hosts that cannot be read.
    #[error(
        "--hostfile {}: {error}: expected a file that can be read, of at most {} MiB",
        .path.display().to_string().escape_debug(),
        FILE_MAX >> 20
    )]
    NoHostFile {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// No such program.
    #[error("{}: no such program{hint}", .path.display().to_string().escape_debug())]
    NoProgram {
        /// The path as given.
        path: PathBuf,
        /// A note on where it was searched.
        hint: &'static str,
    },
    /// The program is not executable.
    #[error("{}: not an executable file", .path.display().to_string().escape_debug())]
    NotExecutable {
        /// The path as found.
        path: PathBuf,
    },
    /// The machine is too small.
    #[error(
        "-n {pes}: {pes} symmetric heaps of {heap_mib} MiB are more than the {total_mib} MiB of \
         this machine; use fewer PEs or a smaller SHMEM_SYMMETRIC_SIZE"
    )]
    Memory {
        /// Number of PEs.
        pes: usize,
        /// The size of a heap in MiB.
        heap_mib: u64,
        /// The memory of the machine in MiB.
        total_mib: u64,
    },
    /// An injection rule names a PE or node that does not exist.
    #[error("{rule}: expected {what} 0 to {last}")]
    Target {
        /// The rule.
        rule: String,
        /// `PEs` or `nodes`.
        what: &'static str,
        /// The highest number.
        last: usize,
    },
    /// The folder of checkpoints on disk is unusable.
    #[error(
        "SHMEM_FT_STORE={}: {error}: expected a folder, or a place for one",
        .path.escape_debug()
    )]
    Store {
        /// The folder.
        path: String,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The checkpoint to resume from does not fit the job.
    #[error("--resume {}: {why}", .got.escape_debug())]
    Resume {
        /// The given value.
        got: String,
        /// The mismatch.
        why: String,
    },
    /// Spares were requested in shrink mode, which starts no substitutes.
    #[error("--spares {spares} with SHMEM_FT_SUBSTITUTE=shrink: expected 0")]
    FewerSpares {
        /// The requested number.
        spares: usize,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Setting(#[from] SettingError),
    /// The fabric is unavailable.
    #[error("{0}")]
    Fabric(#[from] FabricError),
    /// The job cannot be protected as asked.
    #[error("{0}")]
    Protection(#[from] ProtectionError),
    /// The file of failure domains cannot be read.
    #[error(
        "SHMEM_FT_DOMAINS={}: {error}: expected a file that can be read, of at most {} MiB",
        .path.escape_debug(),
        FILE_MAX >> 20
    )]
    NoFile {
        /// The file.
        path: String,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The file of failure domains is malformed.
    #[error("SHMEM_FT_DOMAINS: {0}")]
    Domains(#[from] file::FileError),
}
