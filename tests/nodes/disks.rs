//! Checkpoints on the disks of hosts, each of which sees only its own: a job restarts on hosts in
//! any order, with one empty disk, and refuses if too much is gone.
//!
//! A folder mounted at the same path on each host acts as its disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::net::{Net, agent};
use super::support::processes::signal;
use super::support::{Job, Outcome, jacobi, mounts};

/// Long enough that two sets are on disk before the end.
const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "6144", "--halo", "32"];

const FELL: &str = ": all PEs begin again from set ";

/// Hosts, with a disk for each.
struct Disks {
    net: Net,
    folder: PathBuf,
}

impl Disks {
    fn new(hosts: usize) -> Disks {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("disks-{}-{number}", std::process::id());
        let disks = Disks { net: Net::new(hosts), folder: Path::new(TMPDIR).join(name) };
        fs::create_dir_all(disks.seen()).expect("a place for a disk");
        (0..hosts).for_each(|host| fs::create_dir_all(disks.disk(host)).expect("a disk"));
        let (own, inside) = (disks.folder.display(), disks.folder.join("inside"));
        let seen = disks.seen().canonicalize().expect("it is there");
        let mount = mounts::privately(&mounts::mount("--bind \"$disk\"", &seen));
        let mount = format!("#!/bin/sh\ndisk=$1\nshift\n{mount} && exec \"$@\"\n");
        let enter = format!(
            "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec \"$host\" {} {own}/\"$host\" \"$@\"\n",
            inside.display()
        );
        for (script, text) in [(&disks.script(), enter), (&inside, mount)] {
            fs::write(script, text).expect("a script");
            fs::set_permissions(script, PermissionsExt::from_mode(0o755)).expect("it may run");
        }
        disks
    }

    fn script(&self) -> PathBuf {
        self.folder.join("agent")
    }

    /// Returns the path at which a host sees its disk.
    fn seen(&self) -> PathBuf {
        self.folder.join("seen")
    }

    fn disk(&self, host: usize) -> PathBuf {
        self.folder.join(self.net.host(host))
    }

    fn wipe(&self, host: usize) {
        fs::remove_dir_all(self.disk(host)).expect("its disk is wiped");
        fs::create_dir_all(self.disk(host)).expect("an empty disk");
    }

    /// Returns a job with a PE on each of these hosts.
    fn job(&self, hosts: &[usize]) -> Job {
        let hosts: Vec<String> =
            hosts.iter().map(|&host| format!("{}:1", self.net.host(host))).collect();
        let agent = format!("{} {{host}}", self.script().display());
        let job = self.net.oshrun(&["--hosts", &hosts.join(","), "--launch-agent", &agent]);
        let job = job.args(&["--fabric", "ucx"]).mode("raid5").with_orphans();
        job.env("SHMEM_FT_STORE_LAYOUT", "local")
    }

    /// Runs a job until it has written sets, and kills it with all hosts.
    fn fill(&self, hosts: &[usize]) {
        let seen = self.seen();
        let job = self.job(hosts).args(&["--verbose"]).env("SHMEM_FT_STORE_EVERY", "1");
        let job = job.env("SHMEM_FT_STORE", seen.to_str().expect("a plain name"));
        let mut run = jacobi::job(job, LONG).start();
        run.wait_for_nth("is on disk", 2); // not set-2, which may be abandoned
        self.net.kill_all();
        run.finish().status(137);
    }

    fn resume(&self, hosts: &[usize]) -> Outcome {
        let seen = self.seen();
        let words = ["--verbose", "--resume", seen.to_str().expect("a plain name")];
        let job = self.job(hosts).args(&words);
        jacobi::job(job, LONG).run()
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const TMPDIR: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
fn hosts_in_another_order_are_the_nodes_whose_files_they_have() {
    needs!(has_ucx);
    let disks = Disks::new(5);
    disks.fill(&[0, 1, 2, 3]);
    let outcome = disks.resume(&[2, 0, 3, 1]);
    outcome.right_sum(LONG).says("begins from set ");
    outcome.check(!outcome.err.contains("rebuilt"), "nothing was lost");
    // One of them has been replaced, and the others are in yet another order.
    let outcome = disks.resume(&[1, 4, 3, 0]);
    outcome.right_sum(LONG).says("PE 2 is rebuilt from the parity there");
    outcome.says(" rebuilt from PEs ");
    // The resumed job has written nothing: only the replaced disk lacks its files.
    disks.resume(&[3, 2, 1, 0]).right_sum(LONG);
}

#[test]
fn a_disk_that_was_wiped_is_repaired_and_two_are_not() {
    needs!(has_ucx);
    let disks = Disks::new(4);
    disks.fill(&[0, 1, 2, 3]);
    disks.wipe(1);
    let outcome = disks.resume(&[0, 1, 2, 3]);
    outcome.right_sum(LONG).says("PE 1 is rebuilt from the parity there");
    outcome.says(" rebuilt from PEs ");
    disks.wipe(3);
    let outcome = disks.resume(&[1, 0, 2, 3]);
    outcome.status(2).says("unrecoverable: group 0 lost PEs 1,3, parity 1");
    let lines = outcome.err.lines().filter(|line| line.starts_with("oshrun: ")).count();
    outcome.check(lines == 1, "one line was expected");
    outcome.check(jacobi::sum(&outcome.out).is_none(), "no sum was expected");
}

/// A folder that all hosts share serves the hosts that are left.
#[test]
fn two_lost_hosts_of_four_send_the_job_back_to_the_shared_disk() {
    needs!(has_ucx);
    let disks = Disks::new(4);
    let folder = disks.folder.join("shared");
    fs::create_dir_all(&folder).expect("a folder");
    let job = disks.net.job(&[1, 1, 1, 1]).args(&["--fabric", "ucx", "--verbose"]);
    let job = job.mode("raid5").env("SHMEM_FT_STORE_EVERY", "1").with_orphans();
    let job = job.env("SHMEM_FT_STORE", folder.to_str().expect("a plain name"));
    let mut run = jacobi::job(job, LONG).start();
    run.wait_for_nth("is on disk", 2);
    [1, 2].into_iter().for_each(|host| disks.net.kill(host, None));
    run.wait_for(FELL);
    let outcome = run.finish();
    outcome.right_sum(LONG);
    outcome.check(outcome.count(FELL) == 1, "one fall was expected");
}

/// The memory of two PEs is lost with one of the disks: a process dies whose memory is not adopted,
/// and a host. Parity files replace what was on that disk.
#[test]
fn a_lost_disk_of_four_does_not_keep_a_job_from_falling_back() {
    needs!(has_ucx);
    let disks = Disks::new(4);
    let seen = disks.seen();
    let job = disks.job(&[0, 1, 2, 3]).args(&["--verbose"]).env("SHMEM_FT_STORE_EVERY", "1");
    let job = job.env("SHMEM_FT_ADOPT", "0");
    let job = job.env("SHMEM_FT_STORE", seen.to_str().expect("a plain name"));
    let mut run = jacobi::job(job, LONG).start();
    run.wait_for_nth("is on disk", 2);
    let agent = agent(&run, 1).pid;
    let pe = run.processes().into_iter().find(|found| found.parent == agent).expect("a PE").pid;
    // No PE is restored while an agent stands still.
    signal(agent, Signal::STOP);
    signal(pe, Signal::KILL);
    disks.net.kill(2, None);
    signal(agent, Signal::CONT);
    run.wait_for(FELL);
    let outcome = run.finish();
    outcome.right_sum(LONG).says("PE 2 is rebuilt from the parity there");
}
