//! A check, in a separate process, that a fabric's library can be loaded: launcher and agents rely
//! on the result without loading the library, which starts threads and handles signals.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::handshake::PROBE_ARGUMENT;
use raidshmem_core::settings::Fabric;
use raidshmem_engines as engines;
use raidshmem_fabric::FabricError;

/// Exit statuses of a process that has loaded the library: with a device for it, without one.
const LOADED: [i32; 2] = [0, 1];
/// Exit status of a process that cannot load the library, and prints the reason.
const NOT_LOADED: i32 = 2;

/// Returns the result of [`engines::load`] in a process with these additional variables.
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
                said.lines().last().unwrap_or_default().to_owned() // UCX may print lines before it
            }
            _ => format!("a process that loads it ended with {}", output.status),
        },
        Err(error) => format!("a process that loads it: {error}"),
    };
    Err(FabricError::NotLoaded { fabric, why })
}

/// Runs in that process: loads the library, prints the reason if it cannot, and returns the exit
/// status.
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
