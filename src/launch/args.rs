//! The command line of `oshrun`, and its checks before anything is started.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::membership::Shape;
use crate::control::page::PES_MAX;
use crate::pgas::boot::default_heap;
use crate::placement::substitute::Site;
use crate::placement::{Domains, file};
use crate::settings::{SettingError, Settings};
use crate::store::protection::{Protection, ProtectionError};
use crate::sys::memory;

/// Runs an OpenSHMEM program whose PEs may die.
#[derive(Debug, Parser)]
#[command(name = "oshrun", version, about, max_term_width = 100)]
pub struct Args {
    /// Number of PEs.
    #[arg(short = 'n', long = "np", value_name = "N")]
    pub pes: String,
    /// Sleeping processes that take the number of a lost PE; with several nodes they sit on a node
    /// of their own.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub spares: u32,
    /// Agents on this machine, each a node with its own memory that can be lost.
    #[arg(long, value_name = "M", default_value_t = 1)]
    pub nodes: u32,
    /// Kill a PE by SIGKILL: PE@CHECKPOINT[:point]. May be repeated.
    #[arg(long, value_name = "RULE")]
    pub kill: Vec<String>,
    /// Kill a node, its agent and its PEs: NODE@CHECKPOINT[:point]. May be repeated.
    #[arg(long, value_name = "RULE")]
    pub kill_node: Vec<String>,
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
    #[error("-n {got}: allowed are 1..={PES_MAX}")]
    Pes {
        /// What was given.
        got: String,
    },
    /// `--nodes` out of range.
    #[error("--nodes {got}: allowed are 1..={most} (at most one a PE)")]
    Nodes {
        /// What was given.
        got: u32,
        /// Number of PEs.
        most: usize,
    },
    /// Too many spares.
    #[error("--spares {got}: allowed are 0..={PES_MAX}")]
    Spares {
        /// What was given.
        got: u32,
    },
    /// No such program.
    #[error("{}: no such program{hint}", .path.display())]
    NoProgram {
        /// As given.
        path: PathBuf,
        /// Where it was looked for.
        hint: &'static str,
    },
    /// Not executable.
    #[error("{}: not an executable file", .path.display())]
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
    #[error("{rule}: allowed are {what} 0..={last}")]
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
    /// The job cannot be protected as asked.
    #[error("{0}")]
    Protection(#[from] ProtectionError),
    /// The file of failure domains cannot be read.
    #[error("SHMEM_FT_DOMAINS={path}: {error}: allowed is a file that can be read")]
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

/// A job ready to start.
#[derive(Debug)]
pub struct Ready {
    /// Nodes, PEs and spares.
    pub shape: Shape,
    /// Settings in force.
    pub settings: Settings,
    /// Groups, and what the nodes are called and fail together with.
    pub site: Site,
    /// What is survived, in words; None in mode `none`.
    pub survives: Option<String>,
    /// True if the loss of some failure domain is not survived though losses are to be.
    pub fragile: bool,
    /// Bytes of each symmetric heap.
    pub heap_len: u64,
    /// Program with its path resolved, and arguments.
    pub program: Vec<OsString>,
}

impl Args {
    /// Checks everything that can be checked before a process is started.
    pub fn prepare(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Ready, Refused> {
        let in_range = |n: &usize| (1..=PES_MAX).contains(n);
        let bad_pes = || Refused::Pes { got: self.pes.clone() };
        let pes = self.pes.parse::<usize>().ok().filter(in_range).ok_or_else(bad_pes)?;
        if self.nodes == 0 || self.nodes as usize > pes {
            return Err(Refused::Nodes { got: self.nodes, most: pes });
        }
        if self.spares as usize > PES_MAX {
            return Err(Refused::Spares { got: self.spares });
        }
        let settings = Settings::from_env(self.with_rules(environment).into_iter())?;
        let spare_node = self.spares > 0 && self.nodes > 1;
        let nodes = self.nodes + u32::from(spare_node);
        let node_of: Vec<u32> =
            (0..pes).map(|pe| (pe * self.nodes as usize / pes) as u32).collect();
        let spares = vec![if spare_node { self.nodes } else { 0 }; self.spares as usize];
        let shape = Shape { node_of, nodes, spares };
        check_rules(&settings, pes, nodes as usize)?;
        let places: Vec<usize> = shape.node_of.iter().map(|&node| node as usize).collect();
        let domains = read_domains(&settings, nodes)?;
        let protection = Protection::new(&settings, &places, &domains)?;
        let group_of = match &protection {
            Some(protection) => protection.plan.of.iter().map(|&(group, _)| group).collect(),
            None => vec![0; pes],
        };
        let heap_len = settings.symmetric_size.unwrap_or_else(|| default_heap(pes));
        let total = memory::total().unwrap_or(u64::MAX);
        if heap_len.saturating_mul(pes as u64) > total {
            let (heap_mib, total_mib) = (heap_len >> 20, total >> 20);
            return Err(Refused::Memory { pes, heap_mib, total_mib });
        }
        let mut program = self.program;
        program[0] = resolve(Path::new(&program[0]))?.into_os_string();
        Ok(Ready {
            survives: protection.as_ref().map(Protection::to_string),
            fragile: protection.as_ref().is_some_and(|p| !p.survives_domains()),
            shape,
            site: Site { group_of, domains, parity: settings.parity },
            settings,
            heap_len,
            program,
        })
    }

    /// The environment with the command line's rules added to the injection setting.
    fn with_rules(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Vec<(String, String)> {
        const INJECT: &str = "SHMEM_FT_INJECT";
        let mut rules: Vec<String> = self.kill.clone();
        rules.extend(self.kill_node.iter().map(|rule| format!("node:{rule}")));
        let mut environment: Vec<(String, String)> = environment.collect();
        if !rules.is_empty() {
            let before = environment.iter().position(|(name, _)| name == INJECT);
            let before = before.map(|at| environment.remove(at).1).filter(|text| !text.is_empty());
            let all: Vec<String> = before.into_iter().chain(rules).collect();
            environment.push((INJECT.to_string(), all.join(",")));
        }
        if self.verbose {
            environment.retain(|(name, _)| name != "SHMEM_FT_REPORT");
            environment.push(("SHMEM_FT_REPORT".to_string(), "1".to_string()));
        }
        environment
    }
}

/// The failure domains of nodes `node0`, `node1` and so on.
fn read_domains(settings: &Settings, nodes: u32) -> Result<Domains, Refused> {
    let hosts = (0..nodes).map(|node| format!("node{node}")).collect();
    let Some(path) = &settings.domains else { return Ok(Domains::of_hosts(hosts)) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refused::NoFile { path: path.clone(), error })?;
    Ok(file::parse(path, &text, hosts)?)
}

fn check_rules(settings: &Settings, pes: usize, nodes: usize) -> Result<(), Refused> {
    use crate::inject::Target;
    for rule in &settings.inject {
        let (what, number, count) = match rule.target {
            Target::Pe(pe) => ("PEs", pe, pes),
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
