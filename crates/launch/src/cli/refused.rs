//! Why a job is refused before it starts: one line each, which names the culprit.

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

/// Why a job is refused before it starts.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// `-n` out of range.
    #[error("-n {}: expected 1 to {PES_MAX}", .got.escape_debug())]
    Pes {
        /// What was given.
        got: String,
    },
    /// `--nodes` out of range.
    #[error("--nodes {}: expected 1 to {most} (at most one a PE)", .got.escape_debug())]
    Nodes {
        /// What was given.
        got: String,
        /// Number of PEs.
        most: usize,
    },
    /// `-N` out of range.
    #[error(
        "-N {}: expected 1 to {PES_MAX}, with --hosts or in a Slurm allocation",
        .got.escape_debug()
    )]
    PerHost {
        /// What was given.
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
    /// `--launch-agent` without a place for the host, or `--listen` that is no address.
    #[error("{option} `{}`: {expected}", .got.escape_debug())]
    Option {
        /// The option.
        option: &'static str,
        /// What was given.
        got: String,
        /// What is expected.
        expected: &'static str,
    },
    /// `--metrics` that is no place, or one that cannot be had.
    #[error("--metrics {}: {why}", .got.escape_debug())]
    Metrics {
        /// What was given.
        got: String,
        /// What is wrong with it.
        why: String,
    },
    /// Hosts that cannot be had.
    #[error("{0}")]
    Hosts(#[from] HostsError),
    /// Too many spares.
    #[error("--spares {}: expected 0 to {PES_MAX}", .got.escape_debug())]
    Spares {
        /// What was given.
        got: String,
    },
    /// An option for a rule with something that is none.
    #[error("{option}: {source}")]
    Rule {
        /// `--kill` or `--kill-node`.
        option: &'static str,
        /// What is wrong with it.
        source: RuleError,
    },
    /// Words that are no command line.
    #[error("{0}")]
    Words(#[from] WordsError),
    /// What the parser of options says of a word that is no text.
    #[error("{0}")]
    Parser(String),
    /// No program at all.
    #[error(
        "no program: expected oshrun -n N [options] PROGRAM [ARGUMENTS]; `oshrun --help` says more"
    )]
    NothingToRun,
    /// A setting that an option makes has a value that it may not have.
    #[error("{option} {}: expected {allowed}", .got.escape_debug())]
    OptionValue {
        /// The option.
        option: &'static str,
        /// What was given.
        got: String,
        /// What is allowed.
        allowed: String,
    },
    /// `-x` without a name.
    #[error("-x {}: expected VAR or VAR=VALUE", .got.escape_debug())]
    Variable {
        /// What was given.
        got: String,
    },
    /// `--timeout` that is no time.
    #[error("--timeout {}: expected seconds, 0.001 to 1000000000", .got.escape_debug())]
    Timeout {
        /// What was given.
        got: String,
    },
    /// `--stdin` for another PE.
    #[error("--stdin {}: expected 0 (PE 0 reads the standard input) or none", .got.escape_debug())]
    Stdin {
        /// What was given.
        got: String,
    },
    /// `--stop-signal` that is none.
    #[error("--stop-signal {}: expected USR1, USR2, QUIT, TERM, INT or HUP", .got.escape_debug())]
    StopSignal {
        /// What was given.
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
        /// Where it is.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
        /// What is expected.
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
        /// What the kernel said.
        error: std::io::Error,
    },
    /// No such program.
    #[error("{}: no such program{hint}", .path.display().to_string().escape_debug())]
    NoProgram {
        /// As given.
        path: PathBuf,
        /// Where it was looked for.
        hint: &'static str,
    },
    /// Not executable.
    #[error("{}: not an executable file", .path.display().to_string().escape_debug())]
    NotExecutable {
        /// As found.
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
        /// Bytes of a heap, in MiB.
        heap_mib: u64,
        /// Bytes of the machine, in MiB.
        total_mib: u64,
    },
    /// An injection rule names what is not there.
    #[error("{rule}: expected {what} 0 to {last}")]
    Target {
        /// The rule.
        rule: String,
        /// PE or node.
        what: &'static str,
        /// The highest number.
        last: usize,
    },
    /// The folder of checkpoints on disk cannot be had.
    #[error(
        "SHMEM_FT_STORE={}: {error}: expected a folder, or a place for one",
        .path.escape_debug()
    )]
    Store {
        /// The folder.
        path: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The checkpoint to begin from does not fit.
    #[error("--resume {}: {why}", .got.escape_debug())]
    Resume {
        /// What was given.
        got: String,
        /// What does not fit.
        why: String,
    },
    /// Going on with fewer over an engine that was not tried with it.
    #[error("SHMEM_FT_ROLLBACK=none over {fabric}: expected SHMEM_FT_FABRIC=shm or ucx")]
    FewerOver {
        /// What carries data between the nodes.
        fabric: &'static str,
    },
    /// Spares, where nobody takes the place of the lost.
    #[error("--spares {spares} with SHMEM_FT_SUBSTITUTE=shrink: expected 0")]
    FewerSpares {
        /// How many.
        spares: usize,
    },
    /// A setting is wrong.
    #[error("{0}")]
    Setting(#[from] SettingError),
    /// The fabric cannot be had.
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
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The file of failure domains is wrong.
    #[error("SHMEM_FT_DOMAINS: {0}")]
    Domains(#[from] file::FileError),
}
