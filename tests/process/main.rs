//! Real processes and real SIGKILLs: what must go on goes on with the right sum, what cannot ends
//! with one agreed sentence, and nothing is left of either.
//!
//! - [`alone`]: a lost PE that goes back alone; [`alone_pairs`]: two of them; [`alone_zero`]: over
//!   calls that move nothing; [`alone_apart`]: and then all do; [`alone_place`]: however its
//!   checkpoint call was compiled
//! - [`binding`]: processors and NUMA nodes of PEs
//! - [`modes`]: every mode, a process or a node lost at every step of a checkpoint
//! - [`kill`]: several losses, in turn, at once, more than can be borne, without a substitute
//! - [`calls`]: calls as the specification has them
//! - [`corrupt`]: memory of the store that changes by itself
//! - [`pool`]: several threads of a PE in checkpoints and recoveries
//! - [`contained`]: the rules of system calls of a container
//! - [`delta`]: checkpoints that save what changed only
//! - [`disk`]: checkpoints on disk, and jobs that begin from them
//! - [`disks`]: the same where each node has its own disk
//! - [`exits`]: how a job ends when its programs end
//! - [`fewer`]: jobs that go on without the lost
//! - [`inherited`]: whatever a job is started with
//! - [`input`]: bad input
//! - [`interval`]: checkpoints that pass until one is due
//! - [`options`]: options as hands expect them, standard input, output, signals
//! - [`telling`]: what is said of losses and at the end
//! - [`report`]: events, the report and its page, metrics
//! - [`kernels`]: every kernel of this machine
//! - [`late`]: losses after the last checkpoint, and while others are in `shmem_finalize`
//! - [`memory`]: what a restart brings back, and what it leaves alone
//! - [`pages`]: huge pages for large heaps, with and without rights
//! - [`placement`]: failure domains above the node
//! - [`places`]: programs that call the checkpoint from several places
//! - [`prelude`]: calls before the first checkpoint call
//! - [`profiled`]: programs that are built for a profiler
//! - [`readonly`]: memory that the program declares read-only
//! - [`rebuilt`]: a job that begins from disk with another build of its program
//! - [`recovery`]: a second loss at every step of a recovery
//! - [`residue`]: whatever is killed from outside, nothing is left; stopped is not dead
//! - [`scrub`]: damage found and repaired in idle time
//! - [`slow_disk`]: disks that are slower than checkpoints, and a disk that hangs
//! - [`snapshots`]: two of them in turns
//! - [`stall`]: waits that last, and those that never end
//! - [`starve`]: checkpoints for which there is no memory
//! - [`status`]: what is shown of a job that runs
//! - [`survives`]: which losses a job survives as it is now
//! - [`tools`]: programs under debuggers, profilers and sanitizers
//! - [`written`]: checkpoints that take from the kernel what was written

#[path = "../support/mod.rs"]
mod support;

/// A test for each mode in the matrix of that name, so that processors share it. They are long.
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

mod alone;
mod alone_apart;
mod alone_pairs;
mod alone_place;
mod alone_words;
mod alone_zero;
mod binding;
mod calls;
#[cfg(target_arch = "x86_64")]
mod contained;
mod corrupt;
mod delta;
mod disk;
mod disks;
mod dump;
mod exits;
mod fewer;
mod heal;
mod inherited;
mod input;
mod interval;
mod kernels;
mod kill;
mod late;
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

/// Steps of a checkpoint at which somebody may be killed.
const STEPS: [&str; 7] = ["before", "quiesce", "encode", "encoded", "copy", "copied", "after"];
/// Those of the calls about read-only memory, and of the checkpoint after one.
const READONLY: [&str; 7] = [
    "readonly",
    "readonly-encode",
    "readonly-encoded",
    "readonly-agreed",
    "writable",
    "writable-copy",
    "writable-copied",
];
/// Those of a recovery.
const RECOVERY: [&str; 7] =
    ["settle", "decided", "verify", "rebuild", "restore", "reencode", "resume"];

#[test]
fn the_steps_are_the_library_s() {
    use raidshmem_core::inject::Point;
    assert!(Point::ALL.map(Point::name).iter().eq(STEPS.iter().chain(&READONLY).chain(&RECOVERY)));
}

/// What programs say that compare all of their memory after each restart.
#[track_caller]
fn right(pes: usize, outcome: &support::Outcome) {
    outcome.status(0);
    let right = outcome.out.lines().filter(|line| line.ends_with(" is right")).count();
    outcome.check(right == pes, "every PE should find its memory right");
}
