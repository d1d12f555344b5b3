//! What a job is told of itself before it begins.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use raidshmem_core::message::{Down, HeartbeatSettings, Job, Place};
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::{Settings, table};

use super::gather::Node;
use crate::launch::cli::ready::{Programs, Ready};
use crate::sys::socket::ChannelError;

/// What the processes of the job have to know.
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
        bind: ready.settings.bind,
        pages: ready.settings.pages,
        domains: ready.site.domains.clone(),
        fabric: shape.fabric,
        device: ready.settings.device.clone(),
    }
}

/// What agents have to know of heartbeats, and of what else they look after by the clock.
pub(super) fn heartbeat_settings(
    settings: &Settings,
    net: Option<(Secret, u16)>,
) -> HeartbeatSettings {
    HeartbeatSettings {
        period: settings.period(),
        limit: settings.node_timeout,
        pe_limit: settings.pe_timeout,
        stall: Some(settings.stall).filter(|limit| !limit.is_zero()),
        net,
    }
}

/// Tells every node what the job is, and how programs run there.
///
/// # Errors
/// A connection that failed; the end of a node is noticed.
pub(super) fn configure(
    nodes: &mut BTreeMap<u32, Node>,
    ready: &Ready,
    job: &Job,
    heartbeat: &HeartbeatSettings,
) -> Result<(), ChannelError> {
    let program: Vec<Vec<u8>> = ready.program.iter().map(|word| word.as_bytes().to_vec()).collect();
    for (&node, entry) in nodes {
        let place = place(&ready.programs, entry.remote.is_some());
        let Some(link) = &mut entry.link else { continue };
        link.give_up_after(heartbeat.limit * 5 / 4);
        let (job, heartbeat) = (Box::new(job.clone()), heartbeat.clone());
        let program = program.clone();
        match link.send(&Down::Configure { job, node, program, place, heartbeat }, &[]) {
            Ok(()) | Err(ChannelError::Closed) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A random number, not 0.
pub(super) fn job_id() -> std::io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes) | 1)
}

/// How programs run; on other hosts with what they would inherit from this process, without what is
/// about this host.
fn place(programs: &Programs, elsewhere: bool) -> Place {
    const OWN: &[&str] = &["HOST", "HOSTNAME", "DISPLAY", "XAUTHORITY", "TMPDIR", "LS_COLORS", "_"];
    const OWN_PREFIXES: &[&str] = &["SSH_", "SLURM_", "XDG_", "DBUS_"];
    let own = |name: &str| {
        OWN.contains(&name) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let inherited = std::env::vars_os().filter(|(name, _)| !own(&name.to_string_lossy()));
    let inherited = inherited.filter(|_| elsewhere);
    // Settings are in force already, with what options say.
    let set = |name: &str| table().iter().any(|entry| entry.name == name);
    let given = programs.variables.iter().filter(|(name, _)| !set(name));
    let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let env = inherited.chain(given);
    let folder = match &programs.folder {
        None if elsewhere => Some(std::env::current_dir().unwrap_or_else(|_| "/".into())),
        folder => folder.clone(),
    };
    let bytes = |path: PathBuf| path.into_os_string().into_vec();
    Place {
        folder: folder.map(bytes),
        env: env.map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
        stdin: programs.stdin && !elsewhere,
        carried: elsewhere || programs.tag || programs.stamp || programs.output.is_some(),
        tag: programs.tag,
        stamp: programs.stamp,
        output: programs.output.clone().map(bytes),
    }
}
