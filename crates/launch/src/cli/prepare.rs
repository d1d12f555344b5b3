//! The checks of a command line before anything is started.
//!
//! This module reads files, the machine and the environment; the decisions are made in
//! [`super::environment`], [`super::hosts`] and [`raidshmem_core::placement`].

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::io::{ErrorKind, IsTerminal};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::Args;
use super::environment::{self, Variables};
use super::hosts::{self, Host, HostsError};
use super::outputs;
use super::protected::ProtectionTable;
use super::ready::{Cluster, Outputs, Programs, Ready, local_names};
use super::refused::Refused;
use super::resume;
use super::starter::Means;
use crate::probe::probe;
use raidshmem_core::membership::Shape;
use raidshmem_core::placement::{DomainKind, Domains, bindings, file, found};
use raidshmem_core::settings::{Bind, Fabric, Rollback, Settings};
use raidshmem_core::signals::number;
use raidshmem_core::view::PES_MAX;
use raidshmem_engines as engines;
use raidshmem_sys::input::{self, FILE_MAX, Pipes};
use raidshmem_sys::memory::default_heap;
use raidshmem_sys::{machine, memory};

/// The notice for a view that cannot be shown.
const NOWHERE: &str = "--live: standard error is not a terminal; no view is shown";
/// The signals that `--stop-signal` accepts.
const STOPS: [i32; 6] =
    [libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Rejects options that shrink mode does not support.
fn check_fewer(settings: &Settings, shape: &Shape) -> Result<(), Refused> {
    let spares = shape.spares.len();
    match settings.rollback {
        Rollback::None if spares > 0 => Err(Refused::FewerSpares { spares }),
        _ => Ok(()),
    }
}

impl Args {
    /// Checks everything that can be checked before a process is started. Creates nothing.
    pub fn prepare(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Ready, Refused> {
        self.question()?;
        if self.program.is_empty() {
            return Err(Refused::NothingToRun);
        }
        let environment: Vec<(String, String)> = environment.collect();
        let (exported, unset) = environment::exported(&self.variables, &environment)?;
        let cluster = self.cluster(&environment)?;
        let mut shape = match &cluster {
            Some((_, counts)) => self.shape_of_hosts(counts)?,
            None => self.shape_of_one_machine()?,
        };
        let pes = shape.node_of.len();
        let settings = environment::settings(&self, &environment, &exported)?;
        let begin = resume::settle(self.resume.as_deref(), self.resume_rebuilt, pes, settings)?;
        let resume::Begin { settings, resume, disks, notes: begun } = begin;
        let together = shape.node_of.windows(2).all(|pair| pair[0] == pair[1]);
        let one_machine = cluster.is_none() || together;
        let more = || exported.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
        let known = |fabric| probe(fabric, more());
        shape.fabric = engines::choose(settings.fabric, one_machine, known)?.0;
        check_fewer(&settings, &shape)?;
        check_rules(&settings, pes, shape.nodes as usize)?;
        let domains = domains(&settings, &shape, cluster.as_ref().map(|(cluster, _)| cluster))?;
        let protected = ProtectionTable::new(&settings, &shape.node_of, domains)?;
        let heap_len = heap_len(&settings, &shape, cluster.is_some())?;
        let (timeout, stop_signal) = (self.timeout()?, self.stop_signal()?);
        let programs = self.programs(exported, cluster.is_some())?;
        let mut notes = [self.needless.clone(), unset, begun].concat();
        notes.extend(environment::strange(&environment));
        let live = self.live(&environment)?;
        notes.extend((self.live && !live).then(|| NOWHERE.to_owned()));
        notes.extend(protected.bent.clone());
        let mut program = self.program;
        let folder = programs.folder.as_deref();
        program[0] = resolve(Path::new(&program[0]), folder)?.into_os_string();
        let outputs = Outputs { report: self.report, events: self.events, metrics: self.metrics };
        Ok(Ready {
            outputs,
            programs,
            timeout,
            stop_signal,
            quiet: self.quiet,
            live,
            notes,
            cluster: cluster.map(|(cluster, _)| cluster),
            shape,
            protected,
            settings,
            heap_len,
            resume,
            disks,
            starts: None,
            report_placement: self.report_placement,
            dry_run: self.dry_run,
            program,
        })
    }

    /// Returns the programs' environment and the handling of their output.
    fn programs(&self, variables: Variables, elsewhere: bool) -> Result<Programs, Refused> {
        Ok(Programs {
            folder: self.wdir.as_deref().map(|path| folder(path, elsewhere)).transpose()?,
            variables,
            stdin: self.reads_input()?,
            tag: self.tag_output,
            stamp: self.timestamp_output,
            output: self.output.as_deref().map(outputs::absolute).transpose()?,
        })
    }

    /// Returns the hosts named on the command line.
    fn named_hosts(&self) -> Result<Option<Vec<Host>>, Refused> {
        match (&self.hosts, &self.hostfile) {
            (Some(_), Some(_)) => {
                Err(Refused::Contradiction { one: "--hosts", other: "--hostfile" })
            }
            (Some(text), None) => Ok(Some(hosts::parse(text)?)),
            (None, Some(path)) => {
                let no_file = |error| Refused::NoHostFile { path: path.clone(), error };
                let text = input::text(path, FILE_MAX, Pipes::Read).map_err(no_file)?;
                Ok(Some(hosts::parse_file(&path.display().to_string(), &text)?))
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns true if a view is requested and can be drawn.
    fn live(&self, environment: &[(String, String)]) -> Result<bool, Refused> {
        if self.live && self.quiet {
            return Err(Refused::Contradiction { one: "--live", other: "--quiet" });
        }
        let dumb = environment.iter().any(|(name, value)| name == "TERM" && value == "dumb");
        Ok(self.live && !dumb && std::io::stderr().is_terminal())
    }

    fn timeout(&self) -> Result<Option<Duration>, Refused> {
        let bad = |got: &String| Refused::Timeout { got: got.clone() };
        let in_range = |seconds: &f64| (0.001..=1e9).contains(seconds);
        let parse = |text: &String| text.parse::<f64>().ok().filter(in_range);
        let seconds = self.timeout.as_ref().map(|text| parse(text).ok_or_else(|| bad(text)));
        Ok(seconds.transpose()?.map(Duration::from_secs_f64))
    }

    fn stop_signal(&self) -> Result<Option<i32>, Refused> {
        let bad = |got: &String| Refused::StopSignal { got: got.clone() };
        let parse = |text: &String| number(text).filter(|n| STOPS.contains(n));
        let signal = self.stop_signal.as_ref();
        signal.map(|text| parse(text).ok_or_else(|| bad(text))).transpose()
    }

    /// Returns true if PE 0 reads this process's standard input.
    fn reads_input(&self) -> Result<bool, Refused> {
        match self.stdin.as_str() {
            "0" => Ok(true),
            "none" => Ok(false),
            _ => Err(Refused::Stdin { got: self.stdin.clone() }),
        }
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

    /// Places spares round-robin on the hosts without PEs, or on all hosts if each has PEs.
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

    /// Returns the hosts of the command line or of a Slurm allocation, and the number of PEs of
    /// each.
    fn cluster(
        &self,
        environment: &[(String, String)],
    ) -> Result<Option<(Cluster, Vec<usize>)>, Refused> {
        let variable = |name: &'static str| {
            let found = environment.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        let slurm = hosts::of_slurm(variable).filter(|_| self.nodes.is_none());
        let (hosts, means) = match (self.named_hosts()?, slurm) {
            (Some(_), _) if self.nodes.is_some() => {
                let one = if self.hosts.is_some() { "--hosts" } else { "--hostfile" };
                return Err(Refused::Contradiction { one, other: "--nodes" });
            }
            (Some(hosts), None) => (hosts, Means::Ssh),
            (Some(hosts), Some(_)) => (hosts, Means::Slurm),
            (None, Some(hosts)) => (hosts?, Means::Slurm),
            (None, None) => return Ok(None),
        };
        let in_range = |n: &usize| (1..=PES_MAX).contains(n);
        let bad = |got: &String| Refused::PerHost { got: got.clone() };
        let each = self.per_host.as_ref();
        let each = each.map(|t| t.parse().ok().filter(in_range).ok_or_else(|| bad(t)));
        let mut named = hosts;
        if each.is_some() && self.hosts.is_none() && self.hostfile.is_none() {
            named.iter_mut().for_each(|host| host.pes = None); // -N overrides Slurm's counts
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
}

/// Returns the bytes of a symmetric heap. On one machine, the heaps of all PEs must fit into it.
fn heap_len(settings: &Settings, shape: &Shape, elsewhere: bool) -> Result<u64, Refused> {
    let pes = shape.node_of.len();
    let on = |node: u32| shape.node_of.iter().filter(|&&other| other == node).count();
    let most = (0..shape.nodes).map(on).max().unwrap_or(pes);
    let together = if elsewhere { most } else { pes }; // PEs on one machine
    let heap_len = settings.symmetric_size.unwrap_or_else(|| default_heap(together));
    let total = memory::total().unwrap_or(u64::MAX);
    if !elsewhere && heap_len.saturating_mul(pes as u64) > total {
        let (heap_mib, total_mib) = (heap_len >> 20, total >> 20);
        return Err(Refused::Memory { pes, heap_mib, total_mib });
    }
    Ok(heap_len)
}

/// Returns the failure domains of the nodes: those of the user's file, or those of this machine for
/// agents that share it. Agents on other hosts report theirs when they join.
fn domains(
    settings: &Settings,
    shape: &Shape,
    cluster: Option<&Cluster>,
) -> Result<Domains, Refused> {
    let names = match cluster {
        Some(cluster) => cluster.names.clone(),
        None => local_names(shape.nodes),
    };
    let Some(path) = &settings.domains else {
        let protects = settings.backup_mode.protects() && settings.bind != Bind::None;
        let shared = cluster.is_none() && shape.nodes > 2 && protects;
        let kinds = if shared { kinds_here(settings, shape, &names) } else { Vec::new() };
        return Ok(Domains::of_hosts(names).with_kinds(kinds));
    };
    domains_of_file(path, names)
}

/// Reads the failure domains of nodes with these names from the user's file.
///
/// # Errors
/// The file cannot be read, or does not describe these nodes.
pub fn domains_of_file(path: &str, names: Vec<String>) -> Result<Domains, Refused> {
    let no_file = |error| Refused::NoFile { path: path.to_owned(), error };
    let text = input::text(Path::new(path), FILE_MAX, Pipes::Read).map_err(no_file)?;
    Ok(file::parse(path, &text, names)?)
}

/// Returns the failure domains that follow from the agents' bindings to this machine's packages and
/// NUMA nodes.
fn kinds_here(settings: &Settings, shape: &Shape, names: &[String]) -> Vec<DomainKind> {
    let machine = machine::discover();
    let node_of: Vec<usize> = shape.node_of.iter().map(|&node| node as usize).collect();
    let bindings = bindings::bindings(&machine, node_of.len(), settings.bind);
    found::of_machine(&machine, &bindings, &node_of, names)
}

fn listen_address(text: &str) -> Result<SocketAddr, Refused> {
    let address = text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, 0)));
    let expected = "expected an address of this machine, or ADDRESS:PORT";
    address.ok_or(Refused::Option { option: "--listen", got: text.to_owned(), expected })
}

fn check_rules(settings: &Settings, pes: usize, nodes: usize) -> Result<(), Refused> {
    use raidshmem_core::inject::FaultTarget;
    for rule in &settings.inject {
        let (what, number, count) = match rule.target {
            FaultTarget::Pe(pe) | FaultTarget::Stop(pe) => ("PEs", pe.at(), pes),
            FaultTarget::Node(node) => ("nodes", node, nodes),
        };
        if number >= count {
            return Err(Refused::Target { rule: rule.to_string(), what, last: count - 1 });
        }
    }
    Ok(())
}

/// Returns the folder to run in. A folder that exists only on other hosts is not checked here.
fn folder(path: &Path, elsewhere: bool) -> Result<PathBuf, Refused> {
    let expected = "a folder to run in";
    let refuse =
        |error| Refused::Folder { option: "--wdir", path: path.to_owned(), error, expected };
    let found = std::path::absolute(path).map_err(refuse)?;
    match found.metadata() {
        Ok(meta) if !meta.is_dir() => Err(refuse(ErrorKind::NotADirectory.into())),
        Err(error) if !elsewhere => Err(refuse(error)),
        _ => Ok(found),
    }
}

fn resolve(program: &Path, folder: Option<&Path>) -> Result<PathBuf, Refused> {
    let path = program.to_path_buf();
    let slash = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let found = if slash {
        let from_there = folder.map_or_else(|| path.clone(), |folder| folder.join(program));
        std::path::absolute(from_there).ok().filter(|path| path.exists())
    } else {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let inside = |dir: PathBuf| Some(dir.join(program)).filter(|path| executable(path));
        std::env::split_paths(&dirs).find_map(inside)
    };
    let hint = match (slash, folder) {
        (false, _) => " in PATH (for one here, write ./ before its name)",
        (true, Some(_)) => " (looked for from --wdir)",
        (true, None) => "",
    };
    let found = found.ok_or(Refused::NoProgram { path, hint })?;
    if executable(&found) { Ok(found) } else { Err(Refused::NotExecutable { path: found }) }
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
