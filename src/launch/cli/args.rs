//! The command line of `oshrun`, and its checks before anything is started.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use raidshmem_core::inject::{Rule, RuleError};
use raidshmem_core::membership::Shape;
use raidshmem_core::placement::substitute::Site;
use raidshmem_core::placement::{Domains, file};
use raidshmem_core::settings::{Fabric, SettingError, Settings};
use raidshmem_core::store::protection::{Protection, ProtectionError};
use raidshmem_core::view::PES_MAX;

use super::hosts::{self, HostsError};
use super::ready::{Cluster, Ready};
use super::starter::Means;
use crate::fabric::{self, FabricError};
use crate::launch::probe::probe;
use crate::pgas::boot::default_heap;
use crate::sys::memory;

/// Longest file of failure domains, in bytes.
const DOMAINS_MAX: u64 = 16 << 20;

/// Runs an OpenSHMEM program whose PEs may die.
#[allow(rustdoc::broken_intra_doc_links)] // brackets of the usage, which clap prints as they are
#[derive(Debug, Parser)]
#[command(name = "oshrun", version, about, max_term_width = 100)]
pub struct Args {
    /// Number of PEs, also as -np. May be left out where the hosts say how many.
    #[arg(short = 'n', long = "np", value_name = "N", allow_hyphen_values = true)]
    pub pes: Option<String>,
    /// Number of PEs of each host.
    #[arg(short = 'N', long, value_name = "PES", allow_hyphen_values = true)]
    pub per_host: Option<String>,
    /// Hosts to run on, as NAME or NAME:PES, separated by commas; those without PEs are spare.
    #[arg(short = 'H', long, visible_alias = "host", value_name = "LIST")]
    pub hosts: Option<String>,
    /// Command that starts an agent on {host}, instead of ssh; the words of the agent follow, or
    /// take the place of {agent}.
    #[arg(long, value_name = "COMMAND")]
    pub launch_agent: Option<String>,
    /// Path of oshrun on the hosts; without it, that of this one.
    #[arg(long, value_name = "PATH")]
    pub oshrun: Option<PathBuf>,
    /// Address, or address and port, at which the agents of other hosts reach this one.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Sleeping processes that take the number of a lost PE; with several nodes they sit on a node
    /// of their own.
    #[arg(long, value_name = "K", default_value = "0", allow_hyphen_values = true)]
    pub spares: String,
    /// Agents on this machine, each a node with its own memory that can be lost.
    #[arg(long, value_name = "M", allow_hyphen_values = true)]
    pub nodes: Option<String>,
    /// What carries data between nodes: auto, shm, ucx or verbs (sets SHMEM_FT_FABRIC).
    #[arg(long, value_name = "NAME")]
    pub fabric: Option<String>,
    /// Kill a PE by SIGKILL: PE@CHECKPOINT[:point]. May be repeated.
    #[arg(long, value_name = "RULE")]
    pub kill: Vec<String>,
    /// Kill a node, its agent and its PEs: NODE@CHECKPOINT[:point]. May be repeated.
    #[arg(long, value_name = "RULE")]
    pub kill_node: Vec<String>,
    /// What PEs are bound to: auto, core or none; as SHMEM_FT_BIND.
    #[arg(long, value_name = "WHAT")]
    pub bind: Option<String>,
    /// Print where each PE runs: node, failure domains, group, processors and NUMA node.
    #[arg(long)]
    pub report_placement: bool,
    /// A line for every checkpoint, recovery and memory figure.
    #[arg(short, long)]
    pub verbose: bool,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub program: Vec<OsString>,
}

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
    /// What stands where the program should, and begins like an option.
    #[error("{}: no such option; `oshrun --help` lists them", .got.escape_debug())]
    NoOption {
        /// What was given.
        got: String,
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
        DOMAINS_MAX >> 20
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

impl Args {
    /// Parses a command line, in which `-np N` may stand for `-n N`, as it does elsewhere. Does not
    /// return if the line is none, or asks for help.
    pub fn of(words: impl Iterator<Item = OsString>) -> Args {
        let mut words: Vec<OsString> = words.collect();
        let program = Args::try_parse_from(&words).ok().map(|mut args| args.program.remove(0));
        if program.is_some_and(|program| program == "-np")
            && let Some(word) = words.iter_mut().find(|word| *word == "-np")
        {
            *word = "--np".into();
        }
        Args::parse_from(words)
    }

    /// Checks everything that can be checked before a process is started.
    pub fn prepare(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Ready, Refused> {
        let first = self.program[0].to_string_lossy();
        if first.starts_with('-') {
            return Err(Refused::NoOption { got: first.into_owned() });
        }
        let environment: Vec<(String, String)> = environment.collect();
        let cluster = self.cluster(&environment)?;
        let mut shape = match &cluster {
            Some((_, counts)) => self.shape_of_hosts(counts)?,
            None => self.shape_of_one_machine()?,
        };
        let pes = shape.node_of.len();
        let settings = Settings::from_env(self.with_rules(environment.into_iter())?.into_iter())?;
        let together = shape.node_of.windows(2).all(|pair| pair[0] == pair[1]);
        let one_machine = cluster.is_none() || together;
        shape.fabric = fabric::choose(settings.fabric, one_machine, |fabric| probe(fabric, []))?.0;
        check_rules(&settings, pes, shape.nodes as usize)?;
        let places: Vec<usize> = shape.node_of.iter().map(|&node| node as usize).collect();
        let domains = read_domains(
            &settings,
            match &cluster {
                Some((cluster, _)) => cluster.names.clone(),
                None => (0..shape.nodes).map(|node| format!("node{node}")).collect(),
            },
        )?;
        let protection = Protection::new(&settings, &places, &domains)?;
        let group_of = match &protection {
            Some(protection) => protection.plan.of.iter().map(|&(group, _)| group).collect(),
            None => vec![0; pes],
        };
        let on = |node: u32| shape.node_of.iter().filter(|&&other| other == node).count();
        let most = (0..shape.nodes).map(on).max().unwrap_or(pes);
        let together = if cluster.is_some() { most } else { pes }; // on one machine
        let heap_len = settings.symmetric_size.unwrap_or_else(|| default_heap(together));
        let total = memory::total().unwrap_or(u64::MAX);
        if cluster.is_none() && heap_len.saturating_mul(pes as u64) > total {
            let (heap_mib, total_mib) = (heap_len >> 20, total >> 20);
            return Err(Refused::Memory { pes, heap_mib, total_mib });
        }
        let mut program = self.program;
        program[0] = resolve(Path::new(&program[0]))?.into_os_string();
        Ok(Ready {
            survives: protection.as_ref().map(Protection::to_string),
            fragile: protection.as_ref().is_some_and(|p| !p.survives_domains()),
            cluster: cluster.map(|(cluster, _)| cluster),
            shape,
            site: Site { group_of, domains, parity: settings.parity },
            settings,
            heap_len,
            report_placement: self.report_placement,
            program,
        })
    }

    fn count(&self) -> Result<Option<usize>, Refused> {
        let in_range = |n: &usize| (1..=PES_MAX).contains(n);
        let bad = || Refused::Pes { got: self.pes.clone().unwrap_or_default() };
        let parse = |text: &String| text.parse::<usize>().ok().filter(in_range).ok_or_else(bad);
        self.pes.as_ref().map(parse).transpose()
    }

    fn spare_count(&self) -> Result<usize, Refused> {
        let bad = || Refused::Spares { got: self.spares.clone() };
        self.spares.parse::<usize>().ok().filter(|n| *n <= PES_MAX).ok_or_else(bad)
    }

    fn shape_of_one_machine(&self) -> Result<Shape, Refused> {
        if let Some(got) = self.per_host.clone() {
            return Err(Refused::PerHost { got });
        }
        let pes = self.count()?.ok_or(HostsError::NoCount)?;
        let nodes = self.nodes.clone().unwrap_or_else(|| "1".into());
        let bad = || Refused::Nodes { got: nodes.clone(), most: pes };
        let in_range = |n: &usize| (1..=pes).contains(n);
        let homes = nodes.parse::<usize>().ok().filter(in_range).ok_or_else(bad)?;
        let spares = self.spare_count()?;
        let spare_node = spares > 0 && homes > 1;
        let nodes = homes + usize::from(spare_node);
        let node_of: Vec<u32> = (0..pes).map(|pe| (pe * homes / pes) as u32).collect();
        let spares = vec![if spare_node { homes as u32 } else { 0 }; spares];
        Ok(Shape { node_of, nodes: nodes as u32, spares, fabric: Fabric::Auto })
    }

    /// Spares sit on the hosts without PEs in turn, or on all if each has some.
    fn shape_of_hosts(&self, counts: &[usize]) -> Result<Shape, Refused> {
        let pes = counts.iter().fold(0, |sum: usize, &count| sum.saturating_add(count));
        if pes > PES_MAX {
            return Err(Refused::Pes { got: pes.to_string() });
        }
        let numbered = || (0u32..).zip(counts.iter().copied());
        let node_of: Vec<u32> =
            numbered().flat_map(|(node, count)| std::iter::repeat_n(node, count)).collect();
        let mut homes: Vec<u32> =
            numbered().filter(|(_, count)| *count == 0).map(|(node, _)| node).collect();
        if homes.is_empty() {
            homes = (0..counts.len() as u32).collect();
        }
        let spares = homes.iter().copied().cycle().take(self.spare_count()?).collect();
        Ok(Shape { node_of, nodes: counts.len() as u32, spares, fabric: Fabric::Auto })
    }

    /// The hosts of the command line or of a Slurm allocation, and the PEs of each.
    fn cluster(
        &self,
        environment: &[(String, String)],
    ) -> Result<Option<(Cluster, Vec<usize>)>, Refused> {
        let variable = |name: &'static str| {
            let found = environment.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        let slurm = hosts::of_slurm(variable).filter(|_| self.nodes.is_none());
        let (hosts, means) = match (&self.hosts, slurm) {
            (Some(_), _) if self.nodes.is_some() => {
                return Err(Refused::Contradiction { one: "--hosts", other: "--nodes" });
            }
            (Some(text), None) => (hosts::parse(text)?, Means::Ssh),
            (Some(text), Some(_)) => (hosts::parse(text)?, Means::Slurm),
            (None, Some(hosts)) => (hosts?, Means::Slurm),
            (None, None) => return Ok(None),
        };
        let in_range = |n: &usize| (1..=PES_MAX).contains(n);
        let bad = |got: &String| Refused::PerHost { got: got.clone() };
        let each = self.per_host.as_ref();
        let each = each.map(|t| t.parse().ok().filter(in_range).ok_or_else(|| bad(t)));
        let mut named = hosts;
        if each.is_some() && self.hosts.is_none() {
            named.iter_mut().for_each(|host| host.pes = None); // -N over what Slurm says
        }
        let counts = hosts::place(&named, self.count()?, each.transpose()?)?;
        let means = match &self.launch_agent {
            Some(text) if text.contains("{host}") => Means::Command(text.clone()),
            Some(got) => {
                let expected = "expected a command with {host} in it";
                return Err(Refused::Option {
                    option: "--launch-agent",
                    got: got.clone(),
                    expected,
                });
            }
            None => means,
        };
        let listen = self.listen.as_ref().map(|text| listen_address(text)).transpose()?;
        let names = named.into_iter().map(|host| host.name).collect();
        let cluster = Cluster { names, means, oshrun: self.oshrun.clone(), listen };
        Ok(Some((cluster, counts)))
    }

    /// The environment with the command line's rules added to the injection setting.
    fn with_rules(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Vec<(String, String)>, Refused> {
        const INJECT: &str = "SHMEM_FT_INJECT";
        let kill = self.kill.iter().map(|rule| ("--kill", rule.clone()));
        let kill_node = self.kill_node.iter().map(|rule| ("--kill-node", format!("node:{rule}")));
        let read = |(option, rule): (_, String)| match rule.parse::<Rule>() {
            Ok(rule) => Ok(rule.to_string()),
            Err(source) => Err(Refused::Rule { option, source }),
        };
        let rules = kill.chain(kill_node).map(read).collect::<Result<Vec<String>, Refused>>()?;
        let mut environment: Vec<(String, String)> = environment.collect();
        if !rules.is_empty() {
            let before = environment.iter().position(|(name, _)| name == INJECT);
            let before = before.map(|at| environment.remove(at).1).filter(|text| !text.is_empty());
            let all: Vec<String> = before.into_iter().chain(rules).collect();
            environment.push((INJECT.to_string(), all.join(",")));
        }
        if let Some(bind) = &self.bind {
            environment.retain(|(name, _)| name != "SHMEM_FT_BIND");
            environment.push(("SHMEM_FT_BIND".to_string(), bind.clone()));
        }
        if let Some(fabric) = &self.fabric {
            environment.retain(|(name, _)| name != "SHMEM_FT_FABRIC");
            environment.push(("SHMEM_FT_FABRIC".to_string(), fabric.clone()));
        }
        if self.verbose {
            environment.retain(|(name, _)| name != "SHMEM_FT_REPORT");
            environment.push(("SHMEM_FT_REPORT".to_string(), "1".to_string()));
        }
        Ok(environment)
    }
}

/// The failure domains of nodes with these names.
fn read_domains(settings: &Settings, names: Vec<String>) -> Result<Domains, Refused> {
    let Some(path) = &settings.domains else { return Ok(Domains::of_hosts(names)) };
    let mut text = String::new();
    let file = File::open(path).map(|file| file.take(DOMAINS_MAX + 1));
    let read = file.and_then(|mut file| file.read_to_string(&mut text));
    let read = read.and_then(|len| match len as u64 {
        ..=DOMAINS_MAX => Ok(()),
        _ => Err(ErrorKind::FileTooLarge.into()),
    });
    read.map_err(|error| Refused::NoFile { path: path.clone(), error })?;
    Ok(file::parse(path, &text, names)?)
}

fn listen_address(text: &str) -> Result<SocketAddr, Refused> {
    let address = text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, 0)));
    let expected = "expected an address of this machine, or ADDRESS:PORT";
    address.ok_or(Refused::Option { option: "--listen", got: text.to_owned(), expected })
}

fn check_rules(settings: &Settings, pes: usize, nodes: usize) -> Result<(), Refused> {
    use raidshmem_core::inject::Target;
    for rule in &settings.inject {
        let (what, number, count) = match rule.target {
            Target::Pe(pe) | Target::Stop(pe) => ("PEs", pe, pes),
            Target::Node(node) => ("nodes", node, nodes),
        };
        if number >= count {
            return Err(Refused::Target { rule: rule.to_string(), what, last: count - 1 });
        }
    }
    Ok(())
}

fn resolve(program: &Path) -> Result<PathBuf, Refused> {
    let path = program.to_path_buf();
    let slash = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let found = if slash {
        std::path::absolute(program).ok().filter(|path| path.exists())
    } else {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let inside = |dir: PathBuf| Some(dir.join(program)).filter(|path| executable(path));
        std::env::split_paths(&dirs).find_map(inside)
    };
    let hint = if slash { "" } else { " in PATH (for one here, write ./ before its name)" };
    let found = found.ok_or(Refused::NoProgram { path, hint })?;
    if executable(&found) { Ok(found) } else { Err(Refused::NotExecutable { path: found }) }
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
