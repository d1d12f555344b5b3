//! Hosts of a test: network namespaces joined by a bridge, which is in a namespace too.
//!
//! ```text
//! hub: br0 10.9.0.254, where the launcher runs; br1 without an address, for the other side
//!      v0 -- eth0 10.9.0.1 in host 0      v1 -- eth0 10.9.0.2 in host 1      ...
//! ```

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::support::processes::{Found, ends_before, signal};
use super::support::{Job, LIMIT, Running, mounts, namespaces};

/// The address on which the launcher listens.
pub const HUB: &str = "10.9.0.254";

/// `SHMEM_FT_NODE_TIMEOUT` of jobs, in seconds, unless a test is about silence: on a busy machine
/// healthy agents stall for seconds.
pub const SILENCE: u64 = 20;

/// A network, removed when dropped.
pub struct Net {
    name: String,
    hosts: usize,
}

impl Net {
    /// Makes this many hosts. Fails the test with a clear line if namespaces cannot be made.
    pub fn new(hosts: usize) -> Net {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static CLEAR: Once = Once::new();
        CLEAR.call_once(namespaces::clear);
        leave_the_machine();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let net = Net { name: format!("rshm{}-{number}", std::process::id()), hosts };
        let hub = net.hub();
        ip(&["netns", "add", &hub]);
        ip(&["-n", &hub, "link", "set", "lo", "up"]);
        // Otherwise it would answer through br1 for its address on br0.
        let strict = "echo 1 | tee /proc/sys/net/ipv4/conf/*/arp_ignore \
            /proc/sys/net/ipv4/conf/*/rp_filter";
        // A bridge without an address of its own takes the lowest of its ports' addresses, and
        // changes it as ports come and go.
        for (bridge, address) in [("br0", "02:00:00:00:00:01"), ("br1", "02:00:00:00:00:02")] {
            ip(&["-n", &hub, "link", "add", bridge, "address", address, "type", "bridge"]);
            ip(&["-n", &hub, "link", "set", bridge, "up"]);
        }
        ip(&["netns", "exec", &hub, "sh", "-c", strict]);
        ip(&["-n", &hub, "addr", "add", &format!("{HUB}/24"), "dev", "br0"]);
        for host in 0..hosts {
            let (name, port) = (net.host(host), format!("v{host}"));
            ip(&["netns", "add", &name]);
            let pair = ["type", "veth", "peer", "name", "eth0", "netns"];
            ip(&[&["-n", &hub, "link", "add", &port], &pair[..], &[&name]].concat());
            ip(&["-n", &hub, "link", "set", &port, "master", "br0", "up"]);
            let address = format!("10.9.0.{}/24", host + 1);
            ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"]);
            ip(&["-n", &name, "link", "set", "lo", "up"]);
            ip(&["-n", &name, "link", "set", "eth0", "up"]);
        }
        net
    }

    /// Returns the name of the launcher's namespace.
    pub fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    /// Returns the path of the launcher's network namespace.
    pub fn hub_path(&self) -> PathBuf {
        path(&self.hub())
    }

    /// Returns the name of a host, which is that of its namespace.
    pub fn host(&self, host: usize) -> String {
        format!("{}-h{host}", self.name)
    }

    /// Returns the value of `--hosts`: `counts[k]` PEs on host k.
    pub fn list(&self, counts: &[usize]) -> String {
        let word = |(host, count): (usize, &usize)| format!("{}:{count}", self.host(host));
        counts.iter().enumerate().map(word).collect::<Vec<_>>().join(",")
    }

    /// Returns a job of `oshrun` in the hub, with this many PEs on the hosts.
    pub fn job(&self, counts: &[usize]) -> Job {
        self.job_by("ip netns exec {host}", counts)
    }

    /// Like [`Net::job`], with another command to start agents.
    pub fn job_by(&self, command: &str, counts: &[usize]) -> Job {
        let list = self.list(counts);
        self.oshrun(&["--hosts", &list, "--launch-agent", command])
    }

    /// Returns a job of `oshrun` in the hub, with these arguments.
    pub fn oshrun(&self, words: &[&str]) -> Job {
        let job = Job::of(&["--listen", HUB]).args(words).inside(&self.hub_path());
        job.env("SHMEM_SYMMETRIC_SIZE", "16M").env("SHMEM_FT_NODE_TIMEOUT", &SILENCE.to_string())
    }

    /// Returns a command in a namespace, with its own mounts and host name, to run after `first`
    /// there.
    pub fn command(&self, namespace: &str, first: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        let script = format!("{first} && exec \"$@\"");
        command.args(["netns", "exec", namespace, "unshare", "--uts", "sh", "-c", &script, "sh"]);
        let path = std::env::var("PATH").expect("a PATH");
        command.env("PATH", format!("{path}:/usr/sbin:/sbin")); // for daemons, not only as root
        command.args(words).env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
        command
    }

    /// Returns every process in a namespace.
    pub fn processes(&self, namespace: &str) -> Vec<u32> {
        let output = Command::new("ip").args(["netns", "pids", namespace]).output();
        let output = output.expect("ip runs").stdout;
        String::from_utf8_lossy(&output).lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills every process of a host but one.
    pub fn kill(&self, host: usize, but: Option<u32>) {
        let all = self.processes(&self.host(host)).into_iter();
        all.filter(|&pid| Some(pid) != but).for_each(|pid| signal(pid, Signal::KILL));
    }

    /// Kills every process on all hosts and in the hub.
    pub fn kill_all(&self) {
        let namespaces = (0..self.hosts).map(|host| self.host(host)).chain([self.hub()]);
        let all: Vec<u32> = namespaces.flat_map(|namespace| self.processes(&namespace)).collect();
        all.iter().for_each(|&pid| signal(pid, Signal::KILL));
        let end = Instant::now() + LIMIT;
        let ended = all.iter().all(|&pid| ends_before(pid, end));
        assert!(ended || std::thread::panicking(), "what is killed ends");
    }

    /// Takes the link of a host down, or up again.
    pub fn link(&self, host: usize, up: bool) {
        let state = if up { "up" } else { "down" };
        ip(&["-n", &self.hub(), "link", "set", &format!("v{host}"), state]);
    }

    /// Cuts these hosts off from the other hosts and the launcher, but not from each other.
    pub fn part(&self, hosts: &[usize]) {
        for host in 0..self.hosts {
            let bridge = if hosts.contains(&host) { "br1" } else { "br0" };
            ip(&["-n", &self.hub(), "link", "set", &format!("v{host}"), "master", bridge]);
        }
    }

    /// Runs `act` in the network of a host.
    pub fn on<T: Send + 'static>(
        &self,
        host: usize,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        inside(&path(&self.host(host)), act)
    }

    /// Runs `act` in the network of the launcher, in a thread that continues.
    pub fn in_hub(&self, act: impl FnOnce() + Send + 'static) {
        let path = path(&self.hub());
        std::thread::spawn(move || inside(&path, act));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Links and bridges are removed with their namespaces.
        for name in (0..self.hosts).map(|host| self.host(host)).chain([self.hub()]) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// Gives this thread its own list of network namespaces, which is invisible outside and ends with
/// the test's processes.
fn leave_the_machine() {
    thread_local!(static LEFT: Cell<bool> = const { Cell::new(false) });
    if LEFT.replace(true) {
        return;
    }
    let list = Path::new("/run/netns");
    std::fs::create_dir_all(list).expect("these tests need root: /run/netns");
    let list = list.canonicalize().expect("it is there");
    mounts::leave_the_machine().expect("these tests need root and mounts of their own");
    let mount = mounts::mount("-t tmpfs none", &list);
    let mounted = Command::new("/bin/sh").args(["-c", &mount]).status();
    assert!(mounted.is_ok_and(|status| status.success()), "{mount}");
}

fn path(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Runs `act` there in a new thread, so that the test's other threads stay where they are.
fn inside<T: Send + 'static>(network: &Path, act: impl FnOnce() -> T + Send + 'static) -> T {
    use std::os::fd::AsFd;
    let network = std::fs::File::open(network).expect("the namespace is there");
    let body = move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("a thread of root may move into a namespace");
        act()
    };
    std::thread::spawn(body).join().expect("what is done there does not panic")
}

#[track_caller]
fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output();
    let output = output.unwrap_or_else(|error| {
        panic!("these tests need `ip` (iproute2): it cannot be started: {error}")
    });
    assert!(
        output.status.success(),
        "these tests need root and network namespaces: `ip {}`: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the supervisor of a node.
pub fn supervisor(run: &Running, node: usize) -> Found {
    let end = format!(" {node}");
    let is = |found: &Found| {
        let words = found.words.trim_end();
        words.contains(" --raidshmem-agent-of ") && words.ends_with(&end) && found.name == "oshrun"
    };
    run.processes().into_iter().find(is).expect("the node has a supervisor")
}

/// Returns the agent of a node.
pub fn agent(run: &Running, node: usize) -> Found {
    let of = supervisor(run, node).pid;
    let is = |found: &Found| found.parent == of && !found.is_zombie();
    run.processes().into_iter().find(is).expect("the supervisor has an agent")
}

/// Returns the address on which the launcher listens.
pub fn address(run: &Running) -> std::net::SocketAddr {
    let words = supervisor(run, 0).words;
    let mut words = words.split_whitespace().rev().skip(1);
    words.next().and_then(|word| word.parse().ok()).expect("the supervisor gets an address")
}

/// A killed test cannot remove anything itself.
#[test]
fn namespaces_of_a_killed_test_are_removed_and_those_of_others_stay() {
    use std::io::{BufRead, BufReader};
    let living = Net::new(0);
    let script = "ip netns add rshm$$-0-hub && echo rshm$$-0-hub && \
        ip netns exec rshm$$-0-hub sh -c 'echo $$; exec sleep 1000' & wait";
    let mut maker = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(maker.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (left, runs) = (said.next().expect("a namespace"), said.next().expect("a process in it"));
    maker.kill().unwrap();
    maker.wait().unwrap();
    assert!(path(&left).exists());
    namespaces::clear();
    assert!(!path(&left).exists() && path(&living.hub()).exists());
    assert!(ends_before(runs.parse().unwrap(), Instant::now() + LIMIT), "what runs there ends");
}
