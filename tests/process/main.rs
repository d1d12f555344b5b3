//! Real processes and real SIGKILLs: a job that can continue does so with the right sum, one that
//! cannot ends with one agreed error, and neither leaves anything behind.
//!
//! - [`local_rollback`]: a lost PE that rolls back locally; [`local_rollback_pairs`]: two of them;
//!   [`local_rollback_zero`]: over calls that move nothing; [`local_rollback_words`]: with atomic
//!   operations, signals and locks; [`local_rollback_teams`]: in teams and active sets;
//!   [`local_rollback_apart`]: and then all PEs do; [`local_rollback_hosts`]: between hosts;
//!   [`local_rollback_place`]: whichever way its checkpoint call was compiled;
//!   [`local_rollback_rust`]: in safe Rust
//! - [`binding`]: processors and NUMA nodes of PEs
//! - [`background`]: parity that is computed while the program runs
//! - [`modes`]: every mode, a process or a node lost at every step of a checkpoint
//! - [`kill`]: several losses, in turn, at once, more than the parity covers, without a substitute
//! - [`calls`]: calls as the specification defines them
//! - [`capabilities`]: each pair of settings in one job, with a loss
//! - [`corrupt`]: damage in the memory of the store
//! - [`pool`]: several threads of a PE in checkpoints and recoveries
//! - [`contained`]: the system-call rules of a container
//! - [`delta`]: checkpoints that save only changes
//! - [`disk`]: checkpoints on disk, and jobs that restart from them
//! - [`disks`]: checkpoints on disk, with a disk for each node
//! - [`exits`]: the end of a job when its programs end
//! - [`fewer`]: jobs in shrink mode
//! - [`incremental`]: checkpoints on disk that hold what changed since earlier ones
//! - [`inherited`]: unusual environments of a job
//! - [`input`]: invalid input
//! - [`interval`]: checkpoint calls that are skipped until a checkpoint is due
//! - [`options`]: options of other launchers, standard input, output, signals
//! - [`telling`]: messages about losses and at job end
//! - [`report`]: events, the report and its page, metrics
//! - [`kernels`]: every codec kernel of this machine
//! - [`late`]: losses after the last checkpoint, and while others are in `shmem_finalize`
//! - [`memory`]: memory that a restart restores, and memory that it does not touch
//! - [`pages`]: huge pages for large heaps, with and without rights
//! - [`placement`]: failure domains above the node
//! - [`places`]: programs that call the checkpoint at several places
//! - [`prelude`]: calls before the first checkpoint call
//! - [`profiled`]: programs built for a profiler
//! - [`readonly`]: memory that the program declares read-only
//! - [`rebuilt`]: a job that restarts from disk with another build of its program
//! - [`recovery`]: a second loss at every step of a recovery
//! - [`residue`]: nothing left after a kill from outside; stopped is not dead
//! - [`resize`]: checkpoints on disk that a job of another number of PEs reads
//! - [`scrub`]: damage found and repaired in idle time
//! - [`slow_disk`]: disks that are slower than checkpoints, and a disk that hangs
//! - [`snapshots`]: two of them in turns
//! - [`stall`]: long waits, and waits that never end
//! - [`starve`]: checkpoints for which there is no memory
//! - [`status`]: the status of a running job
//! - [`survives`]: losses that a job survives in its current state
//! - [`tools`]: programs under debuggers, profilers and sanitizers
//! - [`written`]: checkpoints that get the written pages from the kernel

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

/// Makes a test for each mode in the matrix of that name, so that processors share the long work.
macro_rules! of_each_mode {
    ($matrix:ident: $($mode:ident)+) => {
        mod $matrix {
            $(#[test] fn $mode() {
                if crate::support::long() {
                    super::$matrix(stringify!($mode));
                }
            })+
        }
    };
}

mod background;
mod binding;
mod calls;
mod capabilities;
#[cfg(target_arch = "x86_64")]
mod contained;
mod corrupt;
mod delta;
mod disk;
mod disks;
mod disks_heal;
mod drain;
mod dump;
mod exits;
mod falls;
mod fewer;
mod heal;
mod incremental;
mod inherited;
mod input;
mod interval;
mod join;
mod json;
mod kernels;
mod kill;
mod late;
mod local_rollback;
mod local_rollback_apart;
mod local_rollback_heal;
mod local_rollback_hosts;
mod local_rollback_pairs;
mod local_rollback_place;
mod local_rollback_rust;
mod local_rollback_teams;
mod local_rollback_words;
mod local_rollback_zero;
mod memory;
mod modes;
mod options;
mod pages;
mod placement;
mod places;
mod pool;
mod prelude;
mod profiled;
mod readonly;
mod rebuilt;
mod recovery;
mod report;
mod residue;
mod resize;
mod scrub;
mod slow_disk;
mod snapshots;
mod stall;
mod starve;
mod status;
mod survives;
mod telling;
mod tools;
mod written;

/// Steps of the calls about read-only memory, and of the checkpoint after one.
const READONLY: [&str; 7] = [
    "readonly",
    "readonly-encode",
    "readonly-encoded",
    "readonly-agreed",
    "writable",
    "writable-copy",
    "writable-copied",
];

/// Steps of the encoding in new groups after a move.
const HEAL: [&str; 6] =
    ["heal", "heal-encode", "heal-encoded", "heal-copy", "heal-copied", "healed"];

#[test]
fn the_steps_are_the_library_s() {
    use raidshmem_core::inject::Point;
    use support::{RECOVERY, STEPS};
    let calls = STEPS.iter().chain(&["drain"]).chain(&READONLY);
    assert!(Point::ALL.map(Point::name).iter().eq(calls.chain(&HEAL).chain(&RECOVERY)));
}

#[test]
fn a_row_stands_for_each_of_its_cells() {
    let cells = std::cell::RefCell::new(Vec::new());
    support::Sweep::of(["-n 6 {a|b} {0,1}@{x|y|z}:{}"]).each(|cell| {
        assert_eq!(cell.pes(), 6);
        cells.borrow_mut().push(format!("{} {}", cell.line, cell.nth));
    });
    let of = |one: &str| ["0@x:x 0", "1@y:y 1", "0@z:z 2"].map(|rest| format!("-n 6 {one} {rest}"));
    assert_eq!(cells.into_inner(), [of("a"), of("b")].concat());
}

/// Checks the output of programs that compare all of their memory after each restart.
#[track_caller]
fn right(pes: usize, outcome: &support::Outcome) {
    outcome.all_print(pes, " is right");
}

/// Runs `sparse`, which compares all of its memory after each restart, in each cell of these rows.
fn sparse(begin: &str, rows: &[&str]) {
    support::Sweep::of(rows.iter().map(|row| format!("{begin} {row}"))).each(|cell| {
        right(cell.pes(), &cell.job().program(&support::program("sparse"), &[]).run());
    });
}
