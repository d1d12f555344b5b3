//! Options of other launchers, `mpirun` (Open MPI, MPICH) and `srun`, and their equivalents here.
//!
//! Pure: a table. An option that has no effect here is ignored with a notice; one that would have
//! an effect is rejected, with the name of the equivalent option.

#![forbid(unsafe_code)]

/// The treatment of another launcher's option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignOption {
    /// Rejected, with the equivalent to use.
    Instead(&'static str),
    /// Ignored, along with its values.
    Needless {
        /// Number of words that follow it.
        values: usize,
        /// Reason why it is unnecessary.
        why: &'static str,
    },
}

/// Looks up an option by its name, including dashes.
pub fn find(name: &str) -> Option<ForeignOption> {
    let bare = name.trim_start_matches('-');
    let of = |names: &str| names.split(' ').any(|known| known == bare);
    let instead = INSTEAD.iter().find(|(names, _)| of(names));
    let instead = instead.map(|&(_, instead)| ForeignOption::Instead(instead));
    let needless = || {
        let found = NEEDLESS.iter().find(|(names, _, _)| of(names));
        found.map(|&(_, values, why)| ForeignOption::Needless { values, why })
    };
    instead.or_else(needless)
}

/// Names without dashes, and the equivalents here.
const INSTEAD: &[(&str, &str)] = &[
    ("ntasks c C", "-n N is the number of PEs (-n 4)"),
    (
        "ppn perhost npernode ntasks-per-node tasks-per-node",
        "-N PES is the number of PEs of a host (-N 2)",
    ),
    ("f machinefile default-hostfile", "--hostfile FILE names the hosts"),
    ("w nodelist", "-H LIST names the hosts"),
    ("x-hosts exclude X nolocal", "-H LIST names exactly the hosts to run on"),
    (
        "bind-to cpu-bind cpu-set cpu-list cpus-per-proc cpus-per-rank",
        "--bind core gives each PE a core, --bind none binds nothing",
    ),
    (
        "map-by rank-by byslot bynode ppr m distribution",
        "PEs are placed in blocks: -N PES or -H HOST:PES says how many on each",
    ),
    (
        "mca gmca pmixmca prtemca omca am tune",
        "SHMEM_FT_* variables are the settings (oshinfo lists them), and -x VAR=VALUE sets any",
    ),
    ("env genv envlist genvlist export", "-x VAR or -x VAR=VALUE gives PEs a variable"),
    ("wd D chdir", "--wdir DIR is the folder to run in"),
    ("prefix", "--oshrun PATH names oshrun on the hosts"),
    ("launcher bootstrap launcher-exec rsh plm_rsh_agent", "--launch-agent COMMAND starts agents"),
    ("iface", "--listen ADDRESS is where agents reach oshrun"),
    (
        "output-filename outfile-pattern errfile-pattern o e error",
        "--output DIR has a file for each PE",
    ),
    ("l label prepend-rank tag", "--tag-output says whose line it is"),
    ("i input", "--stdin 0 passes the standard input to PE 0, --stdin none to no PE"),
    ("t time", "--timeout S ends the job after S seconds"),
    (
        "display-map display-allocation display-topo report-bindings",
        "--report-placement says where each PE runs",
    ),
    (
        "p partition A account J job-name mem mem-per-cpu",
        "sbatch or salloc takes it: run oshrun in an allocation",
    ),
];

/// Names without dashes, numbers of value words, and reasons why they are unnecessary.
const NEEDLESS: &[(&str, usize, &str)] = &[
    ("oversubscribe overcommit O use-hwthread-cpus", 0, "there may be more PEs than processors"),
    ("allow-run-as-root", 0, "oshrun makes no difference between users"),
    ("cpus-per-task", 1, "PEs share the processors of their node evenly"),
    ("mpi", 1, "PEs need no PMI"),
    ("genvall envall", 0, "PEs have all variables of oshrun"),
    ("u unbuffered", 0, "lines come as they are written"),
    ("K kill-on-bad-exit", 0, "a job that cannot go on ends"),
    ("enable-recovery", 0, "SHMEM_FT_BACKUP_MODE says what is survived"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_there_once() {
        let names = INSTEAD.iter().map(|(names, _)| *names);
        let names = names.chain(NEEDLESS.iter().map(|(names, _, _)| *names));
        let mut seen = BTreeSet::new();
        for name in names.flat_map(|names| names.split(' ')) {
            assert!(!name.is_empty() && seen.insert(name), "{name}");
            assert!(find(&format!("--{name}")).is_some(), "{name}");
        }
        assert_eq!(find("--kill"), None);
    }
}
