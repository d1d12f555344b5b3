//! Between hosts: network namespaces joined by a bridge, and the engine over UCX compared in
//! alternation with UCX's own tool on the same path.
//!
//! ```text
//! hub: br0 10.9.0.254 (the launcher) -- v0 -- eth0 10.9.0.1 (host 0), v1 -- ... and so on
//! ```
//!
//! The link's rate is that of 1 MiB messages of `ucx_perftest`: processors copy the data, so a
//! checkpoint, in which all hosts send at once, shares them. Therefore protection is measured a
//! second time with every host's link limited, in both directions (`tc`), to a rate that the
//! processors can sustain: then the bytes read by each host are compared with its own link. (The
//! target of the tool's one-sided bandwidth tests, and of `ucp_get`, sleeps or spins forever, so
//! they are no measure of the link.) With parity in the background the time that the program waits
//! on such links is compared with a copy. A get is compared with a round trip. The bytes of a
//! rebuild are those that the substitute must read: one chunk of every other member of the group
//! for each of its own.
//!
//! Prints a message if namespaces cannot be created (not root), or UCX cannot be loaded.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use raidshmem_core::settings::Fabric;
use raidshmem_engines as engines;

use super::figure::{Figure, ratios};
use super::namespaces;
use super::programs::{Bench, Trouble, millis_of_rebuild, output, value};

const PEER: &str = "ucx_perftest";
const HUB: &str = "10.9.0.254";
const HOSTS: usize = 5;
/// The rate of a link, in Gbit/s. Two processors sustain four of them.
const RATE: u32 = 1;
/// `SHMEM_FT_NODE_TIMEOUT`, in seconds.
const LIMIT: f64 = 2.0;
/// Starts an agent that outlives the command, like an unreachable host.
const DETACHED: &str = "sh -c 'read -r secret; (echo \"$secret\"; exec sleep 8) 2> /dev/null | \
    ip netns exec {host} \"$@\" 2> /dev/null & wait $!; exit 1' sh";
/// Time limit of a measured program.
const PATIENCE: &str = "120";

/// The namespaces, removed on drop.
struct Hosts {
    name: String,
}

impl Hosts {
    fn new() -> Result<Hosts, Trouble> {
        namespaces::clear();
        let hosts = Hosts { name: format!("rshm-bench-{}", std::process::id()) };
        let hub = hosts.hub();
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "set", "lo", "up"])?;
        ip(&["-n", &hub, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "br0", "up"])?;
        ip(&["-n", &hub, "addr", "add", &format!("{HUB}/24"), "dev", "br0"])?;
        for host in 0..HOSTS {
            let (name, port) = (hosts.host(host), format!("v{host}"));
            ip(&["netns", "add", &name])?;
            let pair = ["type", "veth", "peer", "name", "eth0", "netns", &name];
            ip(&[&["-n", &hub, "link", "add", &port], &pair[..]].concat())?;
            ip(&["-n", &hub, "link", "set", &port, "master", "br0", "up"])?;
            let address = format!("{}/24", address(host));
            ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        Ok(hosts)
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    /// Limits every host's link to a rate in Gbit/s, in both directions; `None` removes the limit.
    /// Queues are long enough that one pull of a checkpoint does not overflow them.
    fn set_rate(&self, rate: Option<u32>) -> Result<(), Trouble> {
        for host in 0..HOSTS {
            for (namespace, device) in
                [(self.host(host), String::from("eth0")), (self.hub(), format!("v{host}"))]
            {
                let mut tc = Command::new("tc");
                tc.args(["-n", &namespace, "qdisc"]);
                match rate {
                    Some(rate) => tc
                        .args(["replace", "dev", &device, "root", "tbf"])
                        .args(["rate", &format!("{rate}gbit"), "burst", "256kb"])
                        .args(["latency", "50ms"]),
                    None => tc.args(["del", "dev", &device, "root"]),
                };
                output(&mut tc)?;
            }
        }
        Ok(())
    }

    /// Returns a command in a namespace, with a time limit.
    fn command(&self, namespace: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "timeout", PATIENCE]).args(words);
        command
    }

    /// Returns one figure of UCX's tool between hosts 0 and 1, from column `column`.
    fn raw(&self, words: &[&str], column: usize) -> Result<f64, Trouble> {
        let mut server = self.command(&self.host(1), &[PEER, "-f"]);
        let server = server.envs(engines::environment(Fabric::Ucx));
        let mut server = server.stdout(Stdio::null()).spawn().map_err(Trouble::new)?;
        let listens = || ip_output(&["netns", "exec", &self.host(1), "ss", "-Hltn"]);
        while !listens()?.contains(":13337") && server.try_wait().is_ok_and(|over| over.is_none()) {
            std::thread::yield_now();
        }
        let mut client = self.command(&self.host(0), &[PEER, &address(1), "-f"]);
        let client = client.envs(engines::environment(Fabric::Ucx)).args(words);
        let said = output(client);
        server.wait().map_err(Trouble::new)?;
        let said = said?;
        let last = said.lines().rfind(|line| !line.trim().is_empty() && !line.contains('+'));
        let number = last.and_then(|line| line.split_whitespace().nth(column)?.parse().ok());
        number.ok_or_else(|| Trouble::new(format!("{PEER} {words:?}: no figure in {said:?}")))
    }

    /// Returns the rate of 1 MiB messages, in MB/s.
    fn link(&self, bench: &Bench) -> Result<f64, Trouble> {
        let few = if bench.quick { "100" } else { "500" };
        let words = ["-t", "tag_bw", "-s", "1048576", "-n", few, "-w", "5", "-E", "sleep"];
        Ok(self.raw(&words, 5)? * 1.048576) // it counts in MiB
    }

    /// Returns a job with one PE on each of the first hosts, and a spare host.
    fn job(&self, bench: &Bench, hosts: usize, settings: &[(&str, &str)]) -> Command {
        self.job_by("ip netns exec {host}", bench, (hosts, 1), settings)
    }

    /// Returns a job with that many PEs on each of the first hosts, and a spare host.
    fn job_by(
        &self,
        start: &str,
        bench: &Bench,
        (hosts, each): (usize, usize),
        settings: &[(&str, &str)],
    ) -> Command {
        let list: Vec<String> = (0..=hosts)
            .map(|host| format!("{}:{}", self.host(host), if host < hosts { each } else { 0 }))
            .collect();
        let oshrun = bench.tool("oshrun").to_string_lossy().into_owned();
        let hosts = ["--hosts", &list.join(","), "--listen", HUB, "--fabric", "ucx"];
        let words = [&[oshrun.as_str()], &hosts[..], &["--launch-agent", start]].concat();
        let mut command = self.command(&self.hub(), &words);
        super::programs::clean(&mut command).envs(settings.iter().copied());
        command.env("SHMEM_FT_NODE_TIMEOUT", LIMIT.to_string()).stdin(Stdio::null());
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let namespaces = (0..HOSTS).map(|host| self.host(host)).chain([self.hub()]);
        namespaces.for_each(|name| drop(ip(&["netns", "del", &name])));
    }
}

fn address(host: usize) -> String {
    format!("10.9.0.{}", host + 1)
}

fn ip(words: &[&str]) -> Result<(), Trouble> {
    ip_output(words).map(drop)
}

fn ip_output(words: &[&str]) -> Result<String, Trouble> {
    output(Command::new("ip").args(words))
}

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("scorecard: network: NOT MEASURED: only root may make network namespaces");
        return Ok(Vec::new());
    }
    if let Err(why) = engines::load(Fabric::Ucx) {
        eprintln!("scorecard: network: NOT MEASURED: {why}");
        return Ok(Vec::new());
    }
    let hosts = Hosts::new()?;
    let mut figures = transfers(bench, &hosts)?;
    figures.extend(meetings(bench, &hosts)?);
    figures.extend(protection(bench, &hosts)?);
    figures.extend(detection(bench, &hosts)?);
    Ok(figures)
}

/// Compares latency and bandwidth of two PEs with the tool.
fn transfers(bench: &Bench, hosts: &Hosts) -> Result<Vec<Figure>, Trouble> {
    let program = bench.compile("benches/network.c")?;
    let rounds = if bench.quick { "1000" } else { "5000" };
    let names = ["put_half_ns", "get_ns", "put_mb_s", "get_mb_s"];
    let (mut ours, mut raw) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    for _ in 0..bench.rounds() {
        let mut job = hosts.job(bench, 2, &[]);
        let said = output(job.arg(&program).arg(rounds))?;
        for (into, name) in ours.iter_mut().zip(names) {
            into.push(value(&said, name)?);
        }
        // Columns of the tool: iterations, median latency (us), mean, overall; MB/s twice.
        let words = ["-t", "ucp_put_lat", "-s", "8", "-n", rounds, "-w", "100"];
        let there = hosts.raw(&words, 1)? * 1e3;
        let link = hosts.link(bench)?;
        for (into, value) in raw.iter_mut().zip([there, 2.0 * there, link, link]) {
            into.push(value);
        }
    }
    let of = |at: usize| ratios(&ours[at], &raw[at]);
    Ok(vec![
        Figure::at_most("8-byte put between hosts, time / ucx_perftest", 1.2, &of(0), PEER),
        Figure::at_most("8-byte get between hosts, time / ucx_perftest", 1.2, &of(1), PEER),
        Figure::at_least("1 MiB put between hosts, bandwidth / raw", 0.9, &of(2), PEER),
        Figure::at_least("1 MiB get between hosts, bandwidth / raw", 0.9, &of(3), PEER),
    ])
}

/// Compares meetings in shrink mode with those of the usual modes.
fn meetings(bench: &Bench, hosts: &Hosts) -> Result<[Figure; 2], Trouble> {
    let program = bench.compile("benches/fewer.c")?;
    super::fewer::meetings(bench, "16 PEs on 4 hosts", |settings| {
        let mut job = hosts.job_by("ip netns exec {host}", bench, (4, 4), settings);
        output(job.arg(&program).args(["meet", "10"]))
    })
}

/// Compares a checkpoint of four hosts and the rebuild of one PE with the link, without and with a
/// rate limit.
fn protection(bench: &Bench, hosts: &Hosts) -> Result<Vec<Figure>, Trouble> {
    let (mut open, mut limited) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
    let mut behind = [const { Vec::new() }; 2];
    for _ in 0..bench.rounds() {
        // Without a limit all four share one link: the processors.
        let [saved, rebuilt] = protected(bench, hosts)?;
        open[0].push(4.0 * saved);
        open[1].push(rebuilt);
        hosts.set_rate(Some(RATE))?;
        let both = protected(bench, hosts).and_then(|both| Ok((both, waited(bench, hosts)?)));
        hosts.set_rate(None)?;
        let (both, waits) = both?;
        behind.iter_mut().zip(waits).for_each(|(into, value)| into.push(value));
        limited.iter_mut().zip(both).for_each(|(into, value)| into.push(value));
    }
    let of = |what: &str| format!("{what} of a link of {RATE} Gbit/s, bytes read / link");
    Ok(vec![
        Figure::at_least("checkpoint of 4 hosts, bytes read / link", 0.8, &open[0], PEER),
        Figure::at_least("rebuild of a PE, bytes read / link", 0.8, &open[1], PEER),
        Figure::at_least(&of("checkpoint"), 0.8, &limited[0], PEER),
        Figure::at_least(&of("rebuild"), 0.8, &limited[1], PEER),
        Figure::at_most(
            "program's wait with parity in the background / copy",
            1.3,
            &behind[0],
            "memcpy",
        ),
        Figure::at_most(
            "parity in the background / waited for, until it protects",
            1.1,
            &behind[1],
            "-",
        ),
    ])
}

/// Returns the time that the program waits in a checkpoint of four hosts whose parity is computed
/// in the background, relative to copies of as many bytes, and the time until it protects, relative
/// to that of a checkpoint that is waited for.
fn waited(bench: &Bench, hosts: &Hosts) -> Result<[f64; 2], Trouble> {
    let program = bench.compile("benches/checkpoint.c")?;
    let mib = if bench.quick { "32" } else { "256" };
    let run = |background: &str| {
        let settings = [
            ("SHMEM_FT_BACKUP_MODE", "raid5"),
            ("SHMEM_FT_SNAPSHOTS", "2"),
            ("SHMEM_FT_BACKGROUND", background),
            ("SHMEM_SYMMETRIC_SIZE", "1G"),
        ];
        output(hosts.job(bench, 4, &settings).arg(&program).args(["save", mib, "3"]))
    };
    let (behind, blocking) = (run("on")?, run("off")?);
    let wait = value(&behind, "checkpoint_ms")? / value(&behind, "copy_ms")?;
    Ok([wait, value(&behind, "protects_ms")? / value(&blocking, "protects_ms")?])
}

/// Returns the bytes per second that one host reads in a checkpoint of four, and in the rebuild of
/// its PE, each relative to the link.
fn protected(bench: &Bench, hosts: &Hosts) -> Result<[f64; 2], Trouble> {
    let program = bench.compile("benches/checkpoint.c")?;
    let mib = if bench.quick { 32.0 } else { 128.0 };
    let settings = [
        ("SHMEM_FT_BACKUP_MODE", "raid5"),
        ("SHMEM_SYMMETRIC_SIZE", "1G"),
        ("SHMEM_FT_REPORT", "1"),
    ];
    let link = hosts.link(bench)? / 1.048576; // in MiB, like the other figures here
    let words = ["save", &mib.to_string(), "3"].map(str::to_owned);
    let said = output(hosts.job(bench, 4, &settings).arg(&program).args(&words))?;
    // It reads as many bytes as it has.
    let saved = mib / (value(&said, "checkpoint_ms")? / 1e3);
    let words = ["lose", &mib.to_string(), "node"].map(str::to_owned);
    let mut job = hosts.job(bench, 4, &settings);
    job.args(["--kill-node", "1@2"]).arg(&program).args(&words);
    let said = super::programs::errors(&mut job)?;
    let took = said.lines().find_map(millis_of_rebuild);
    let took = took.ok_or_else(|| Trouble::new(format!("no PE was rebuilt: {said}")))?;
    Ok([saved / link, 3.0 * mib / (took / 1e3) / link])
}

/// Measures the time until all PEs know of a death.
fn detection(bench: &Bench, hosts: &Hosts) -> Result<Vec<Figure>, Trouble> {
    let (seen, steps) = (bench.compile("tests/c/seen.c")?, bench.compile("tests/c/steps.c")?);
    let (mut process, mut node) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds() {
        let raid5 = [("SHMEM_FT_BACKUP_MODE", "raid5")];
        let said = bench.job(4, &raid5, &["--nodes", "2"], &seen, &[])?;
        let line = said.lines().find_map(|line| line.strip_prefix("seen after "));
        let millis = line.and_then(|line| line.strip_suffix(" ms")?.parse().ok());
        process.push(millis.ok_or_else(|| Trouble::new(format!("no time in {said:?}")))?);
        node.push(silent(bench, hosts, &steps)? / LIMIT);
    }
    let name = "a host's link down until it is declared lost / limit";
    Ok(vec![
        Figure::at_most("death of a process until another PE acts, ms", 5.0, &process, "-"),
        Figure::at_most(name, 1.5, &node, "SHMEM_FT_NODE_TIMEOUT"),
    ])
}

/// Measures the seconds from a link failure to the message that reports it.
fn silent(bench: &Bench, hosts: &Hosts, program: &Path) -> Result<f64, Trouble> {
    let folder: PathBuf = bench.target().join("scorecard").join("silent");
    std::fs::create_dir_all(&folder).map_err(Trouble::new)?;
    let _ = std::fs::remove_file(folder.join("stop"));
    let mut job = hosts.job_by(DETACHED, bench, (1, 1), &[("SHMEM_FT_BACKUP_MODE", "none")]);
    job.arg(program).current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = job.spawn().map_err(Trouble::new)?;
    let mut out = BufReader::new(job.stdout.take().expect("it is piped"));
    let mut err = BufReader::new(job.stderr.take().expect("it is piped")).lines();
    let mut ready = String::new();
    out.read_line(&mut ready).map_err(Trouble::new)?;
    let begun = Instant::now();
    ip(&["-n", &hosts.hub(), "link", "set", "v1", "down"])?;
    let told = err.by_ref().map_while(Result::ok).find(|line| line.contains("node 1 was lost"));
    let took = begun.elapsed().as_secs_f64();
    ip(&["-n", &hosts.hub(), "link", "set", "v1", "up"])?;
    std::fs::write(folder.join("stop"), "").map_err(Trouble::new)?;
    err.for_each(drop);
    let _ = out.read_to_end(&mut Vec::new());
    job.wait().map_err(Trouble::new)?;
    told.map(|_| took).ok_or_else(|| Trouble::new("the host without a link was not declared lost"))
}
