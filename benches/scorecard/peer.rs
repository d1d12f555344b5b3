//! Open MPI's OpenSHMEM, for comparison: its wrapper and its launcher.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::{Bench, Trouble};

/// The paths from `PEER_OSHCC` and `PEER_OSHRUN`, or Debian's.
pub struct Peer {
    wrapper: PathBuf,
    launcher: PathBuf,
}

impl Peer {
    pub fn find() -> Result<Peer, Trouble> {
        let place = |variable: &str, path: &str| {
            let path = std::env::var_os(variable).map_or(PathBuf::from(path), PathBuf::from);
            let missing = "no Open MPI to compare with (openmpi-bin, libopenmpi-dev)";
            if path.exists() { Ok(path) } else { Err(Trouble::new(missing)) }
        };
        let wrapper = place("PEER_OSHCC", "/usr/bin/oshcc")?;
        Ok(Peer { wrapper, launcher: place("PEER_OSHRUN", "/usr/bin/oshrun")? })
    }

    /// Compiles the C program at `source` with its wrapper as `name`.
    pub fn compile(&self, bench: &Bench, source: &str, name: &str) -> Result<PathBuf, Trouble> {
        bench.compile_with(&self.wrapper, source, name)
    }

    /// Returns a launcher command for `pes` PEs of `program`, prefixed with the words `before`.
    pub fn job(&self, before: &[&str], pes: usize, program: &Path) -> Command {
        let launcher = self.launcher.to_string_lossy();
        let words = [before, &[&*launcher]].concat();
        let mut command = Command::new(words[0]);
        // As root, as in a container, it starts nothing without two confirmations; with `osc rdma`
        // every program of Open MPI 4.1 segfaults in shmem_finalize.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.args(&words[1..]).args(["--oversubscribe", "--mca", "osc", "^rdma"]);
        command.args(["-n", &pes.to_string()]).arg(program);
        command
    }
}
