//! What a job is told of itself before it begins.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::control::message::{HeartbeatSettings, Job, Place};
use crate::control::noise::Secret;
use crate::launch::cli::ready::{Programs, Ready};
use crate::settings::{BackupMode, Settings, table};

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

/// What a PE keeps for others in a mode.
pub(super) fn kept(mode: BackupMode) -> &'static str {
    match mode {
        BackupMode::Single | BackupMode::Double => "copies",
        _ => "parity",
    }
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
pub(super) fn place(programs: &Programs, elsewhere: bool) -> Place {
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
