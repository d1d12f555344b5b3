//! The configuration that the launcher sends the agents, and prints, before a job begins.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::SystemTime;

use raidshmem_core::message::{Down, Job, ProcessOptions, Stdin};
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::{Setting, Settings, table};
use raidshmem_report::job;
use raidshmem_sys::socket::ChannelError;

use super::gather::Node;
use super::status::Title;
use crate::cli::ready::{Programs, Ready};
use crate::handshake::SECRET_FD;

/// Returns the job's configuration for its processes.
pub(super) fn job_of(ready: &Ready, id: u64) -> Job {
    let shape = &ready.shape;
    Job {
        id,
        n_pes: shape.node_of.len() as u32,
        heap_len: ready.heap_len,
        node_of: shape.node_of.clone(),
        machine_of: match &ready.cluster {
            Some(_) => (0..shape.nodes).collect(),
            None => vec![0; shape.nodes as usize],
        },
        domains: ready.protected.site.domains.clone(),
        fabric: shape.fabric,
        resume: ready.resume.clone(),
    }
}

/// Returns the fixed properties of a job for the status.
pub(super) fn title(ready: &Ready) -> Title {
    let words = ready.program.iter().map(|word| word.to_string_lossy().into_owned());
    Title {
        job: std::process::id(),
        program: words.collect::<Vec<_>>().join(" "),
        since: SystemTime::now(),
        mode: ready.settings.backup_mode,
        group_of: ready.protected.site.group_of.clone(),
    }
}

/// Returns the fixed properties of a job for its record.
pub(super) fn record_of(ready: &Ready) -> job::JobRecord {
    let (settings, shape) = (&ready.settings, &ready.shape);
    let defaults = Settings::default();
    let setting = |entry: &Setting| {
        let (name, doc) = (entry.name.to_owned(), entry.doc.to_owned());
        let (value, default) = (entry.show(settings), entry.show(&defaults));
        job::SettingValue { name, default: value == default, value, doc }
    };
    let Title { job: launcher, program, since, mode, .. } = title(ready);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    job::JobRecord {
        raidshmem: env!("CARGO_PKG_VERSION").to_owned(),
        program,
        host: host.trim_end().to_owned(),
        launcher,
        since: humantime::format_rfc3339_seconds(since).to_string(),
        nodes: match &ready.cluster {
            Some(cluster) => cluster.names.clone(),
            None => (0..shape.nodes).map(|node| format!("node{node}")).collect(),
        },
        node_of: shape.node_of.clone(),
        spares: shape.spares.len() as u32,
        mode: mode.name().to_owned(),
        parity: settings.parity as u32,
        snapshots: if mode.keeps_snapshot() { settings.snapshots as u32 } else { 0 },
        slots: mode.slots() as u32,
        groups: ready.protected.groups.clone(),
        survives: ready.protected.survives.clone(),
        heap: ready.heap_len,
        fabric: shape.fabric.name().to_owned(),
        settings: table().iter().map(setting).collect(),
    }
}

/// Sends every node the job's configuration, the settings, and the options of its programs.
///
/// # Errors
/// A connection failed for a reason other than the end of its node, which is detected elsewhere.
pub(super) fn configure(
    nodes: &mut BTreeMap<u32, Node>,
    ready: &Ready,
    job: &Job,
    net: Option<&(Secret, u16)>,
) -> Result<(), ChannelError> {
    for (&node, entry) in nodes {
        let first = configuration(ready, job, net, (node, entry.remote.is_some()));
        let Some(link) = &mut entry.link else { continue };
        link.give_up_after(ready.settings.node_timeout * 5 / 4);
        match link.send(&first, &[]) {
            Ok(()) | Err(ChannelError::Closed) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the configuration for the agent of `node`, which may be on another host.
pub(super) fn configuration(
    ready: &Ready,
    job: &Job,
    net: Option<&(Secret, u16)>,
    (node, elsewhere): (u32, bool),
) -> Down {
    let asks_for_a_stop = ready.stop_signal.unwrap_or(libc::SIGTERM);
    Down::Configure {
        job: Box::new(job.clone()),
        settings: Box::new(ready.settings.clone()),
        node,
        program: ready.program.iter().map(|word| word.as_bytes().to_vec()).collect(),
        place: place(&ready.programs, elsewhere),
        net: net.cloned(),
        stop_signal: ready.settings.store.as_ref().map(|_| asks_for_a_stop),
    }
}

/// Returns a random number other than 0.
pub(super) fn job_id() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes) | 1)
}

/// Returns the options of programs. On other hosts, these get the folder and variables that they
/// would inherit from this process, except those that describe this host.
fn place(programs: &Programs, elsewhere: bool) -> ProcessOptions {
    const OWN: &[&str] =
        &["HOST", "HOSTNAME", "DISPLAY", "XAUTHORITY", "TMPDIR", "LS_COLORS", "_", SECRET_FD];
    const OWN_PREFIXES: &[&str] = &["SSH_", "SLURM_", "PMI_", "XDG_", "DBUS_"];
    let own = |name: &str| {
        OWN.contains(&name) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let inherited = std::env::vars_os().filter(|(name, _)| !own(&name.to_string_lossy()));
    let inherited = inherited.filter(|_| elsewhere);
    let given = programs.variables.iter();
    let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let env = inherited.chain(given);
    let folder = match &programs.folder {
        None if elsewhere => Some(std::env::current_dir().unwrap_or_else(|_| "/".into())),
        folder => folder.clone(),
    };
    let bytes = |path: PathBuf| path.into_os_string().into_vec();
    ProcessOptions {
        folder: folder.map(bytes),
        env: env.map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
        input: match (programs.stdin, elsewhere) {
            (false, _) => Stdin::Nothing,
            (true, false) => Stdin::Agent,
            (true, true) => Stdin::Launcher,
        },
        carried: elsewhere || programs.tag || programs.stamp || programs.output.is_some(),
        tag: programs.tag,
        stamp: programs.stamp,
        output: programs.output.clone().map(bytes),
    }
}
