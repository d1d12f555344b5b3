//! A machine that sleeps: its processes sleep with it, and nothing is lost.

use std::path::Path;

use crate::image;
use crate::machine::{Guest, Plan};
use crate::support::program;
use crate::switch::Switch;

/// The kernel goes to sleep and wakes after five seconds, which its own suspend test provides: the
/// only time in which the machine does not run.
#[test]
fn a_job_on_one_machine_outlives_its_sleep() {
    let switch = Switch::new();
    let (oshrun, steps) = (env!("CARGO_BIN_EXE_oshrun"), program("steps"));
    let payload = image::add("sleep", &[Path::new(oshrun), &steps]);
    let mut guest = Plan::new(1).with(&payload).boot(&switch);
    guest.ready();
    let job = "SHMEM_FT_NODE_TIMEOUT=2 SHMEM_FT_BACKUP_MODE=raid5 SHMEM_SYMMETRIC_SIZE=16M";
    let job = format!("{job} {oshrun} -v -n 2 --nodes 2 {}", steps.display());
    guest.must(&format!("cd /tmp && ({job}; echo status $?) > out 2>&1 &"));
    guest.must("until grep -q -e ready -e status /tmp/out; do usleep 50000; done");
    // Total seconds, less those in which the machine ran.
    let awake = "awk '/^now at/ { print int($3 / 1e9); exit }' /proc/timer_list";
    let slept = format!("echo $(($(cut -d. -f1 /proc/uptime) - $({awake})))");
    let slept = |guest: &mut Guest| guest.must(&slept).trim().parse::<i64>().expect("seconds");
    let before = slept(&mut guest);
    guest.must("echo core > /sys/power/pm_test && echo mem > /sys/power/state");
    let times = slept(&mut guest) - before;
    assert!(times >= 3, "it slept {times} s, and more than the lease was meant");
    // The job continues: more checkpoints than before.
    let count = "grep -c checkpoint /tmp/out";
    let more = format!("[ $({count}) -gt $((n + 3)) ] || grep -q status /tmp/out");
    let more = format!("until {more}; do usleep 50000; done");
    guest.must(&format!("n=$({count}); {more}"));
    guest.must("touch /tmp/stop; until grep -q status /tmp/out; do usleep 50000; done");
    let said = guest.must("cat /tmp/out");
    assert!(said.contains("status 0") && !said.contains("lost"), "{said}");
}
