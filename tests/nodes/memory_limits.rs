//! Hosts with different memory limits: each in its own control group, as in a batch system.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::net::Net;
use super::support::cgroup::Group;
use super::support::{Outcome, program, skip};

/// Runs four PEs on as many hosts, with these limits in MiB; each takes 130 MiB for a checkpoint:
/// 49 and two thirds of that, and 48 that it has not written. Returns `None` if limits cannot be
/// set.
fn run(limits: [u64; 4]) -> Option<Outcome> {
    let net = Net::new(limits.len());
    let mut groups = Vec::new();
    let mut script = "#!/bin/sh\nhost=$1\nshift\ncase $host in\n".to_owned();
    for (host, limit) in limits.into_iter().enumerate() {
        match Group::new(limit << 20) {
            Ok(group) => {
                let _ = writeln!(script, "{}) {} ;;", net.host(host), group.enter());
                groups.push(group);
            }
            Err(why) => {
                skip("control-groups", &why);
                return None;
            }
        }
    }
    // `ip netns exec` would mount another /sys, which hides the groups.
    script.push_str("esac\nexec nsenter --net=/run/netns/\"$host\" \"$@\"\n");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("limits-{}", net.host(0)));
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it may be run");
    let job = net.job_by(&format!("{} {{host}}", path.display()), &[1, 1, 1, 1]);
    let job = job.args(&["--fabric", "ucx"]).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "128M");
    let outcome = job.program(&program("large"), &["ask", "48"]).run();
    std::fs::remove_file(path).expect("it was written");
    Some(outcome)
}

fn done(outcome: &Outcome) -> usize {
    outcome.status(0).out.lines().filter(|line| line.ends_with(" is done")).count()
}

/// All of them together need more than any one has.
#[test]
fn hosts_with_memory_for_their_own_pes_suffice() {
    needs!(has_ucx);
    let Some(outcome) = run([300; 4]) else { return };
    outcome.check(done(&outcome) == 4, "every PE should finish");
    outcome.check(!outcome.out.contains("refused"), "nothing should be refused");
}

#[test]
fn a_host_short_of_memory_is_reported_with_its_pes() {
    needs!(has_ucx);
    let Some(outcome) = run([300, 300, 120, 300]) else { return };
    outcome.check(done(&outcome) == 4, "every PE should finish");
    let named = "is refused: checkpoint refused: PE 2 needs ";
    let reports = outcome.out.lines().filter(|line| line.contains(named)).count();
    outcome.check(reports == 4, "every host should name PE 2");
}
