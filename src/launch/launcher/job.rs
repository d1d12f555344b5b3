//! What a job is told of itself before it begins.

#![forbid(unsafe_code)]

use std::os::unix::ffi::OsStringExt;

use raidshmem_core::message::{HeartbeatSettings, Job, Place};
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::{BackupMode, Settings};

use crate::launch::cli::ready::Ready;

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

/// What programs on other hosts would inherit from this process, without what is about this host.
pub(super) fn place() -> Place {
    const OWN: &[&str] = &["HOST", "HOSTNAME", "DISPLAY", "XAUTHORITY", "TMPDIR", "LS_COLORS", "_"];
    const OWN_PREFIXES: &[&str] = &["SSH_", "SLURM_", "XDG_", "DBUS_"];
    let own = |name: &str| {
        OWN.contains(&name) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let all = std::env::vars_os().filter(|(name, _)| !own(&name.to_string_lossy()));
    let env = all.map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
    let folder = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Place { folder: folder.into_os_string().into_vec(), env }
}
