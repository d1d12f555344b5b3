//! Open MPI's OpenSHMEM, to compare with: its wrapper and its launcher.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::{Bench, Trouble};

/// Where they are, by `PEER_OSHCC` and `PEER_OSHRUN` or where Debian has them.
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

    /// The C program at `source`, built with its wrapper as `name`.
    pub fn compile(&self, bench: &Bench, source: &str, name: &str) -> Result<PathBuf, Trouble> {
        bench.compile_with(&self.wrapper, source, name)
    }

    /// Its launcher for so many PEs of `program`; `before` are words before it all.
    pub fn job(&self, before: &[&str], pes: usize, program: &Path) -> Command {
        let launcher = self.launcher.to_string_lossy();
        let words = [before, &[&*launcher]].concat();
        let mut command = Command::new(words[0]);
        // As root, as in a container, it starts nothing unless told to twice; with `osc rdma`
        // every program of Open MPI 4.1 ends in a segmentation fault in shmem_finalize.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.args(&words[1..]).args(["--oversubscribe", "--mca", "osc", "^rdma"]);
        command.args(["-n", &pes.to_string()]).arg(program);
        command
    }
}
