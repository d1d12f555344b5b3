//! Agents behind a real sshd, one on each host, with keys and configuration made by the test: no
//! file of the machine, or of its users, is read or changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::daemons::Daemons;
use super::losses::{BUSY, declared, strict};
use super::support::{Job, LIMIT, Outcome, jacobi, mounts, processes, program};

/// Long enough that a fault comes before the end.
const LONG: &[&str] = &["--bytes", "1M", "--sweeps", "6144", "--halo", "32"];

struct Ssh {
    hosts: usize,
    daemons: Daemons,
}

impl Ssh {
    /// Starts `sshd` on hosts `h0` and so on.
    fn start(hosts: usize) -> Ssh {
        let mut ssh = Ssh { hosts, daemons: Daemons::new("ssh", hosts) };
        ssh.configure();
        // In its own mounts: the files that sshd expects, and a root that may log in with a key.
        let run = mounts::mount("-t tmpfs none", Path::new("/run"));
        let shadow = format!("--bind '{}'", ssh.path("shadow"));
        let shadow = mounts::mount(&shadow, Path::new("/etc/shadow"));
        let first = mounts::privately(&format!("{run} && mkdir -m 755 /run/sshd && {shadow}"));
        for host in 0..hosts {
            // sshd requires its absolute path.
            let words = ["sh", "-c", "exec $(command -v sshd) -D -e -f \"$0\"", &ssh.path("sshd")];
            let log = fs::File::create(ssh.path(&format!("log-{host}"))).expect("a file");
            let net = &ssh.daemons.net;
            let mut command = net.command(&net.host(host), &first, &words);
            command.stderr(log);
            ssh.daemons.start(command);
        }
        for host in 0..hosts {
            let log = || fs::read_to_string(ssh.path(&format!("log-{host}"))).unwrap_or_default();
            ssh.daemons.wait_for("sshd", LIMIT, || log().contains("Server listening"));
        }
        ssh
    }

    fn path(&self, name: &str) -> String {
        self.daemons.path(name)
    }

    fn configure(&self) {
        let write = |name: &str, text: &str, mode: u32| {
            fs::write(self.path(name), text).expect("a file");
            let mode = PermissionsExt::from_mode(mode);
            fs::set_permissions(self.path(name), mode).expect("its mode is set");
        };
        for name in ["key", "host-key"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f", &self.path(name)]);
            assert!(command.status().expect("ssh-keygen runs").success());
        }
        let folder = self.daemons.folder().display();
        let sshd = format!(
            "HostKey {folder}/host-key\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\n\
             PermitRootLogin yes\nStrictModes no\nUsePAM no\nPasswordAuthentication yes\n"
        );
        write("sshd", &sshd, 0o600);
        write("shadow", "root:*:19000:0:99999:7:::\n", 0o600);
        let names: String = (0..self.hosts)
            .map(|host| format!("Host h{host}\nHostName 10.9.0.{}\n", host + 1))
            .collect();
        let config = |known: &str, key: &str| {
            format!(
                "{names}Host *\nUser root\nIdentityFile {folder}/{key}\nIdentitiesOnly yes\n\
                 UserKnownHostsFile {folder}/{known}\nGlobalKnownHostsFile none\n\
                 StrictHostKeyChecking yes\n"
            )
        };
        write("config", &config("known", "key"), 0o600);
        write("config-without-key", &config("known", "nothing"), 0o600);
        write("config-without-hosts", &config("nothing", "key"), 0o600);
        let key = fs::read_to_string(self.path("host-key.pub")).expect("a key");
        write("known", &format!("10.9.0.* {key}"), 0o600);
        // Plain `ssh`, as for a user with these lines in the configuration.
        write("ssh", &format!("#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config \"$@\"\n"), 0o755);
    }

    /// Returns a job with plain `ssh`, which is found first in this folder.
    fn job(&self, hosts: &str) -> Job {
        let path = std::env::var("PATH").expect("a PATH");
        let job = self.daemons.net.oshrun(&["--hosts", hosts]);
        job.env("PATH", &format!("{}:{path}", self.daemons.folder().display()))
    }

    /// Returns a job with ssh and its own configuration.
    fn job_with(&self, config: &str, hosts: &str) -> Job {
        let command = format!("ssh -o BatchMode=yes -F {} {{host}}", self.path(config));
        self.daemons.net.oshrun(&["--hosts", hosts, "--launch-agent", &command])
    }

    /// Returns this library's programs that run on the hosts.
    fn left(&self) -> Vec<String> {
        let all = (0..self.hosts)
            .flat_map(|host| self.daemons.net.processes(&self.daemons.net.host(host)));
        let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let ours = |name: &String| ["oshrun", "jacobi", "steps"].contains(&name.trim());
        all.map(name).filter(ours).collect()
    }

    /// Waits a moment until no process of the job is left on the hosts.
    #[track_caller]
    fn is_clean(&self) {
        let end = Instant::now() + BUSY;
        while !self.left().is_empty() {
            assert!(Instant::now() < end, "left on the hosts: {:?}", self.left());
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_host_behind_ssh_that_is_killed_is_rebuilt_on_the_spare_one() {
    needs!(has_ucx);
    let ssh = Ssh::start(4);
    let job = ssh.job("h0:1,h1:1,h2:1,h3:0").args(&["--verbose"]).mode("raid5").with_orphans();
    let run = jacobi::job(job, LONG).until("checkpoint 3: ");
    ssh.daemons.net.kill(1, Some(ssh.daemons.id(1)));
    let outcome = run.finish();
    outcome.right_sum(LONG).says("node 1 was lost with PE 1").says("rebuilt from PE");
    ssh.is_clean();
}

/// One PE on host 0. The agent of the first host is killed, the second one's link goes down.
#[test]
fn a_killed_agent_behind_ssh_is_known_at_once_and_a_lost_link_after_its_limit() {
    let ssh = Ssh::start(3);
    let job = ssh.job_with("config", "h0:1,h1:0,h2:0").args(&["--fabric", "shm"]);
    let mut run = strict(job).program(&program("steps"), &[]).with_orphans().until("ready");
    let of = |host: usize| {
        let all = ssh.daemons.net.processes(&ssh.daemons.net.host(host)).into_iter();
        let words = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_agent = |pid: &u32| {
            let words = String::from_utf8_lossy(&words(pid)).into_owned();
            words.contains("--raidshmem-agent\0")
        };
        all.filter(is_agent).collect::<Vec<u32>>()
    };
    let [agent] = of(1)[..] else { panic!("one agent was expected") };
    processes::signal(agent, rustix::process::Signal::KILL);
    run.wait_for("node 1 was lost; it carried no PE");
    let [agent] = of(2)[..] else { panic!("one agent was expected") };
    let begun = Instant::now();
    ssh.daemons.net.link(2, false);
    declared(&mut run, 2, begun, "link down behind ssh");
    assert!(processes::ends_before(agent, Instant::now() + BUSY), "it ends by its lease");
    let outcome = run.end();
    let silent = outcome.count("no sign of life");
    outcome.status(0).check(silent == 1, "the word of node 1's supervisor comes through ssh");
    ssh.is_clean();
}

/// Checks for one line that names the host, and that no process is left.
#[track_caller]
fn refused(ssh: &Ssh, outcome: &Outcome, words: &str) {
    outcome.status(1);
    let lines: Vec<&str> = outcome.lines("oshrun: ").collect();
    outcome.check(lines.len() == 1, "one line was expected");
    outcome.check(lines[0].contains(words), &format!("`{words}` was expected"));
    ssh.is_clean();
}

#[test]
fn ssh_failures_are_reported_in_one_line() {
    let ssh = Ssh::start(2);
    let end = |job: Job| job.args(&["--fabric", "shm", "sh", "-c", "exit 0"]).run();
    end(ssh.job("h0:1,h1:1")).status(0);
    let outcome = end(ssh.job_with("config-without-key", "h0:1,h1:1"));
    refused(&ssh, &outcome, "Permission denied (publickey,password");
    let outcome = end(ssh.job_with("config-without-hosts", "h0:1"));
    refused(&ssh, &outcome, "node 0 (h0): no agent: ssh exited with status 255: Host key verif");
    let outcome = end(ssh.job("h0:1,nobody.invalid:1"));
    let words = "node 1 (nobody.invalid): no agent: ssh exited with status 255: ssh: Could not res";
    refused(&ssh, &outcome, words);
    ssh.daemons.net.kill(1, None);
    let outcome = end(ssh.job("h0:1,h1:1"));
    refused(&ssh, &outcome, "node 1 (h1): no agent: ssh exited with status 255: ssh: connect to");
}
