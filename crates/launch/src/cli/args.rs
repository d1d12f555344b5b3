//! The options of `oshrun`, as `--help` shows them.
//!
//! [`super::words`] has already split the command line and normalised every option;
//! [`super::prepare`] checks the values.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser};

use super::hosts;
use super::refused::Refused;
use super::words::{self, Known};
use crate::query::{AnswerForm, Asked};

/// Runs an OpenSHMEM program, which survives the loss of PEs (processes) if --mode protects it.
#[derive(Debug, Default, Parser)]
#[command(
    name = "oshrun",
    version,
    max_term_width = 100,
    override_usage = "oshrun -n N [OPTIONS] PROGRAM [ARGUMENTS]",
    after_help = AFTER_HELP
)]
#[allow(rustdoc::broken_intra_doc_links)] // brackets of a command line are not links
pub struct Args {
    /// Number of PEs, also -np N. May be omitted if the hosts specify their numbers of PEs.
    #[arg(short = 'n', long = "np", value_name = "N", help_heading = WHERE)]
    pub pes: Option<String>,
    /// Number of PEs on each host.
    #[arg(short = 'N', long, value_name = "PES", help_heading = WHERE)]
    pub per_host: Option<String>,
    /// Hosts to run on, as NAME or NAME:PES, separated by commas; hosts without PEs are spares.
    #[arg(short = 'H', long, visible_alias = "host", value_name = "LIST", help_heading = WHERE)]
    pub hosts: Option<String>,
    /// File that lists the hosts, one per line: NAME, NAME:PES or NAME slots=PES.
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub hostfile: Option<PathBuf>,
    /// Nodes to simulate on this machine, each with memory that can be lost [default: 1].
    #[arg(long, value_name = "M", help_heading = WHERE)]
    pub nodes: Option<String>,
    /// Binding of PEs: auto (an equal share of the cores each), core (one core each) or none.
    #[arg(long, value_name = "WHAT", help_heading = WHERE)]
    pub bind: Option<String>,
    /// Transport of data between nodes: auto, shm, ucx, verbs or ofi.
    #[arg(long, value_name = "NAME", help_heading = WHERE)]
    pub fabric: Option<String>,
    /// Print the placement of each PE: node, failure domains, group, processors and NUMA node.
    #[arg(long, help_heading = WHERE)]
    pub report_placement: bool,
    /// Print the placement, groups and memory of the job and the losses that it would survive, and
    /// start nothing.
    #[arg(long, help_heading = WHERE)]
    pub dry_run: bool,

    /// Protection of checkpoints; the modes are listed below [default: none].
    #[arg(long, value_name = "MODE", help_heading = LOSSES)]
    pub mode: Option<String>,
    /// Number of PEs in a group that protect each other [default: about 8].
    #[arg(long, value_name = "G", help_heading = LOSSES)]
    pub group: Option<String>,
    /// Number of losses that a group survives, in mode rs [default: 2].
    #[arg(long, value_name = "M", help_heading = LOSSES)]
    pub parity: Option<String>,
    /// Sleeping processes that can take over the number of a lost PE; with several nodes they run
    /// on a node of their own.
    #[arg(long, value_name = "K", default_value = "0", help_heading = LOSSES)]
    pub spares: String,
    /// Kill a PE with SIGKILL, to test that the job survives: PE@CHECKPOINT[:point]. Repeatable.
    #[arg(long, value_name = "RULE", help_heading = LOSSES)]
    pub kill: Vec<String>,
    /// Kill a node, its agent and its PEs: NODE@CHECKPOINT[:point]. Repeatable.
    #[arg(long, value_name = "RULE", help_heading = LOSSES)]
    pub kill_node: Vec<String>,
    /// Resume from a checkpoint on disk, the newest in DIR or that of set N, as if every PE had
    /// been lost after it.
    #[arg(long, value_name = "DIR[@N]", help_heading = LOSSES)]
    pub resume: Option<String>,
    /// Resume with another build of the program: treat possible addresses in it as data.
    #[arg(long, help_heading = LOSSES)]
    pub resume_rebuilt: bool,

    /// Pass a variable to PEs, with the value of oshrun or this one. Repeatable.
    #[arg(short = 'x', value_name = "VAR[=VALUE]", help_heading = PROGRAMS)]
    pub variables: Vec<String>,
    /// Folder to run in; a program given as a relative path is searched from there.
    #[arg(long, value_name = "DIR", help_heading = PROGRAMS)]
    pub wdir: Option<PathBuf>,
    /// PE that reads the standard input of oshrun: 0, or none.
    #[arg(long, value_name = "0|none", default_value = "0", help_heading = PROGRAMS)]
    pub stdin: String,
    /// Prefix each line that a PE prints with the number of the PE.
    #[arg(long, help_heading = PROGRAMS)]
    pub tag_output: bool,
    /// Prefix each line that a PE prints with the time (UTC).
    #[arg(long, help_heading = PROGRAMS)]
    pub timestamp_output: bool,
    /// Write the output of PE k to DIR/pe-k.log instead of the terminal.
    #[arg(long, value_name = "DIR", help_heading = PROGRAMS)]
    pub output: Option<PathBuf>,

    /// End the job after S seconds, with status 124.
    #[arg(long, value_name = "S", help_heading = JOB)]
    pub timeout: Option<String>,
    /// Signal that stops the job, as SIGTERM does, instead of reaching PEs: USR1, USR2 or QUIT.
    #[arg(long, value_name = "SIGNAL", help_heading = JOB)]
    pub stop_signal: Option<String>,
    /// Print a line for every checkpoint, with its duration and time, and for each recovery step.
    #[arg(short, long, overrides_with = "verbose", help_heading = JOB)]
    pub verbose: bool,
    /// Keep a status view at the bottom of the terminal: PEs, groups, checkpoints, and the progress
    /// of a recovery. The output of programs appears above it, in whole lines.
    #[arg(long, help_heading = JOB)]
    pub live: bool,
    /// Print the status of a running job: PEs, groups, checkpoints, losses, and the progress of a
    /// recovery. JOB is the process id of its oshrun, and may be omitted if there is one job. Takes
    /// no program.
    #[arg(long, value_name = "JOB", help_heading = JOB)]
    #[arg(num_args = 0..=1, default_missing_value = "")]
    pub status: Option<String>,
    /// Print that status as JSON, as docs/schema/status.json describes it.
    #[arg(long, help_heading = JOB)]
    pub json: bool,
    /// Print the last events of such a job's processes, and the calls they wait in.
    #[arg(long, value_name = "JOB", help_heading = JOB)]
    #[arg(num_args = 0..=1, default_missing_value = "")]
    pub dump: Option<String>,
    /// Ask such a job to write its next checkpoint to SHMEM_FT_STORE and stop, with status 75.
    #[arg(long, value_name = "JOB", help_heading = JOB)]
    #[arg(num_args = 0..=1, default_missing_value = "")]
    pub stop: Option<String>,
    /// Move the PEs of a node of such a job to spares or other nodes, after its next checkpoint, so
    /// that nothing is computed again. The job may follow: oshrun --drain NODE [JOB].
    #[arg(long, value_name = "NODE", help_heading = JOB)]
    pub drain: Option<String>,
    /// Let a host join such a job, whose PEs move there after its next checkpoint as far as that
    /// evens out the load, at most PES. The job may follow: oshrun --add HOST[:PES] [JOB].
    #[arg(long, value_name = "HOST[:PES]", help_heading = JOB)]
    pub add: Option<String>,
    /// Write a record of the job to a file, which oshreport turns into a page.
    #[arg(long, value_name = "FILE", help_heading = JOB)]
    pub report: Option<PathBuf>,
    /// Write events as they happen, as lines of JSON; - is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = JOB)]
    pub events: Option<PathBuf>,
    /// Serve metrics (OpenMetrics) at PORT of this machine, at ADDRESS:PORT, or at a socket whose
    /// path contains a /.
    #[arg(long, value_name = "ADDR", help_heading = JOB)]
    pub metrics: Option<String>,
    /// Print a script that completes command lines in a shell: bash, zsh, fish or others.
    #[arg(long, value_name = "SHELL", exclusive = true, help_heading = JOB)]
    pub completions: Option<String>,
    /// Print only errors.
    #[arg(short, long, overrides_with = "quiet", help_heading = JOB)]
    pub quiet: bool,

    /// Command that starts an agent on {host}, instead of ssh; the words of the agent follow, or
    /// replace {agent}.
    #[arg(long, value_name = "COMMAND", help_heading = AGENTS)]
    pub launch_agent: Option<String>,
    /// Path of oshrun on the hosts [default: the path of this one].
    #[arg(long, value_name = "PATH", help_heading = AGENTS)]
    pub oshrun: Option<PathBuf>,
    /// Address, or address and port, at which agents on other hosts reach this oshrun.
    #[arg(long, value_name = "ADDRESS", help_heading = AGENTS)]
    pub listen: Option<String>,

    /// The program and its arguments.
    #[arg(skip)]
    pub program: Vec<OsString>,
    /// Notices about options that are unnecessary here.
    #[arg(skip)]
    pub needless: Vec<String>,
}

const WHERE: &str = "Placement of PEs";
const LOSSES: &str = "Fault tolerance";
const PROGRAMS: &str = "Input, output and environment";
const JOB: &str = "Job control";
const AGENTS: &str = "Several hosts";

const AFTER_HELP: &str = "\
Modes, and memory of a PE with 1 of data in groups of g PEs with m parities:
  none    1              a death ends the job
  single  2              survives a process that dies between checkpoints
  double  3              a process or node of a group, between checkpoints
  raid4   2 (two PEs: 4) a process or node of a group, at any moment
  raid5   2 + 2/(g-1)    the same, with the work shared evenly
  rs      2 + 2m/(g-m)   any m processes or nodes of a group, at any moment

Examples:
  Four PEs on this machine; process 2 dies after checkpoint 5:
    oshrun -n 4 --mode raid5 --kill 2@5 ./program
  Eight PEs on two hosts; c waits for one of them to be lost:
    oshrun -H a:4,b:4,c:0 --mode rs ./program

An option wins over the variable that it stands for: --mode, --group, --parity,
--bind and --fabric over SHMEM_FT_BACKUP_MODE, _GROUP_SIZE, _PARITY, _BIND and
_FABRIC. All settings and their values: oshinfo. What to choose: oshinfo plan.
oshinfo --points lists the points of the rules of --kill and --kill-node

Read on: man oshrun; docs/running.md, docs/checkpoints.md, and docs/errors.md,
which explains every line that is printed.";

impl Args {
    /// Returns the question to a running job, with the job it names, if the command line asks one.
    ///
    /// # Errors
    /// Two questions were asked, or an option belongs to another one.
    pub fn question(&self) -> Result<Option<(Asked, &str)>, Refused> {
        if self.resume_rebuilt && self.resume.is_none() {
            return Err(Refused::Alone { option: "--resume-rebuilt", with: "--resume" });
        }
        let form = if self.json { AnswerForm::Json } else { AnswerForm::Text };
        let (drain, add) = (self.drain()?, self.add()?);
        let options = [
            (Asked::Status(form), self.status.as_deref()),
            (Asked::Dump, self.dump.as_deref()),
            (Asked::Stop, self.stop.as_deref()),
        ];
        let given = options.into_iter().filter_map(|(what, job)| Some((what, job?)));
        let given: Vec<(Asked, &str)> = given.chain(drain).chain(add).collect();
        match given.as_slice() {
            [(one, _), ..] if self.dry_run => {
                Err(Refused::Contradiction { one: one.option(), other: "--dry-run" })
            }
            given if self.json && !matches!(given, [(Asked::Status(_), _)] | [_, _, ..]) => {
                Err(Refused::Alone { option: "--json", with: "--status" })
            }
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            [(one, _), (other, _), ..] => {
                Err(Refused::Contradiction { one: one.option(), other: other.option() })
            }
        }
    }

    /// Returns the request that a host joins, with the job, which is the word after the options.
    fn add(&self) -> Result<Option<(Asked, &str)>, Refused> {
        let Some(host) = &self.add else { return Ok(None) };
        let is_one = hosts::parse(host).is_ok_and(|hosts| hosts.len() == 1);
        let what = is_one.then(|| Asked::Add { host: host.clone() });
        self.with_job((what, "--add"), host, "expected a host as --hosts names it, and a job")
    }

    /// Returns the request to drain a node, with the job, which is the word after the options.
    fn drain(&self) -> Result<Option<(Asked, &str)>, Refused> {
        let Some(node) = &self.drain else { return Ok(None) };
        let what = node.parse().ok().map(|node| Asked::Drain { node });
        let expected = "expected the number of a node, as oshrun --status prints it, and a job";
        self.with_job((what, "--drain"), node, expected)
    }

    /// Returns a request of an option with the value `got`, and the job, which is the word after
    /// the options. The request is None if the value is invalid.
    fn with_job(
        &self,
        (what, option): (Option<Asked>, &'static str),
        got: &str,
        expected: &'static str,
    ) -> Result<Option<(Asked, &str)>, Refused> {
        let refused = |got: &str| Err(Refused::Option { option, got: got.to_owned(), expected });
        let Some(what) = what else { return refused(got) };
        match self.program.as_slice() {
            [] => Ok(Some((what, ""))),
            [job] => job.to_str().map_or_else(|| refused(got), |job| Ok(Some((what, job)))),
            [_, word, ..] => refused(&word.to_string_lossy()),
        }
    }

    /// Reads a command line. Does not return if it asks for help or the version.
    ///
    /// # Errors
    /// The first invalid word.
    pub fn of(words: impl Iterator<Item = OsString>) -> Result<Args, Refused> {
        let words = words::split(words.skip(1), &known())?;
        let name = OsString::from("oshrun");
        match Args::try_parse_from(std::iter::once(name).chain(words.options)) {
            Ok(args) => Ok(Args { program: words.program, needless: words.needless, ..args }),
            Err(asked)
                if matches!(asked.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
            {
                asked.exit()
            }
            Err(error) => {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                Err(Refused::Parser(line.trim_start_matches("error: ").to_owned()))
            }
        }
    }
}

/// Lists the known options.
pub fn known() -> Vec<Known> {
    let mut command = Args::command();
    command.build();
    let known = |arg: &clap::Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        let longs = arg.get_long().into_iter().chain(aliases);
        let takes_value = arg.get_action().takes_values();
        let names = arg.get_value_names().and_then(<[_]>::first);
        Known {
            short: arg.get_short(),
            longs: longs.map(str::to_owned).collect(),
            value: names.map(ToString::to_string).filter(|_| takes_value),
            bare: arg.get_num_args().is_some_and(|count| count.min_values() == 0) && takes_value,
            repeats: !matches!(arg.get_action(), ArgAction::Set),
        }
    };
    command.get_arguments().map(known).collect()
}
