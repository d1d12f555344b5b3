//! Whether what a fabric needs can be loaded here, asked of a process of its own: launcher and
//! agents decide by it and stay without the library, which starts threads and handles signals.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::handshake::PROBE_ARGUMENT;
use raidshmem_core::settings::Fabric;
use raidshmem_engines as engines;
use raidshmem_fabric::FabricError;

/// Exit status of a process that has loaded it, and sees a device for it, or sees none.
const LOADED: [i32; 2] = [0, 1];
/// ... that cannot load it, and says why.
const NOT_LOADED: i32 = 2;

/// What [`engines::load`] says in a process with these variables more.
///
/// # Errors
/// [`FabricError::NotLoaded`].
pub fn probe<'a>(
    fabric: Fabric,
    environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> Result<bool, FabricError> {
    if matches!(fabric, Fabric::Auto | Fabric::Shm) {
        return Ok(true);
    }
    let mut command = Command::new("/proc/self/exe");
    command.args([PROBE_ARGUMENT, fabric.name()]);
    command.envs(engines::environment(fabric)).envs(environment);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let why = match command.output() {
        Ok(output) => match output.status.code() {
            Some(code) if LOADED.contains(&code) => return Ok(code == LOADED[0]),
            Some(NOT_LOADED) => {
                let said = String::from_utf8_lossy(&output.stdout);
                said.lines().last().unwrap_or_default().to_owned() // UCX may say more before it
            }
            _ => format!("a process that loads it ended with {}", output.status),
        },
        Err(error) => format!("a process that loads it: {error}"),
    };
    Err(FabricError::NotLoaded { fabric, why })
}

/// The other side, in that process: its exit status, after it has said why not.
pub fn answer(name: Option<&str>) -> i32 {
    let fabric = Fabric::ALL.into_iter().find(|fabric| Some(fabric.name()) == name);
    match engines::load(fabric.unwrap_or(Fabric::Shm)) {
        Ok(device) => LOADED[usize::from(!device)],
        Err(error) => {
            if let FabricError::NotLoaded { why, .. } = error {
                println!("{why}");
            }
            NOT_LOADED
        }
    }
}
