//! Connections from outside the job: rejected with one line, while the job continues.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use raidshmem_control::link::{Link, Net as Sealed};
use raidshmem_control::noise::Side;
use raidshmem_core::message::{Down, Hello};
use raidshmem_core::secret::{SECRET_LEN, Secret};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::net::{HUB, Net, address};
use super::support::{Job, Running, program};

/// The limit of a control connection here.
const LIMIT: Duration = Duration::from_secs(1);
/// Longer than any wait here on a busy machine. Without a limit of its own, the kernel gives a
/// connection up after a quarter of an hour.
const LONG: Duration = Duration::from_secs(60);

fn steps(job: Job) -> Job {
    job.args(&["--fabric", "shm"]).program(&program("steps"), &[])
}

fn ends_well(run: Running) -> super::support::Outcome {
    let outcome = run.end();
    outcome.status(0).prints("stopped");
    outcome
}

/// Sends bytes and waits for the end of the connection.
fn connect_and_send(at: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(at).expect("the launcher listens");
    let _ = stream.write_all(bytes); // it may be rejected partway
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn strangers_and_members_of_other_jobs_are_refused_and_the_job_continues() {
    let net = Net::new(2);
    let mut run = steps(net.job(&[1, 0])).until("ready");
    let at = address(&run);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[255; 70_000]] {
        let garbage = garbage.to_vec();
        net.on(1, move || connect_and_send(at, &garbage));
        run.wait_for("a connection from 10.9.0.2");
    }
    // A peer that follows the protocol but has another job's secret, as any node.
    for node in [0, 1, 7] {
        net.on(1, move || {
            let stream = TcpStream::connect(at).expect("the launcher listens");
            let secret = Secret([7; SECRET_LEN]);
            let sealed = Sealed::new(stream, Side::Agent, &secret).expect("a socket");
            let mut link = Link::Net(Box::new(sealed));
            let hello = Hello { build: "0".into(), node, beats: 1 };
            link.send(&hello, &[]).expect("it is sent");
            let answer = link.receive::<Down>(Duration::from_secs(20));
            assert!(answer.is_err(), "no answer was expected");
        });
    }
    // Datagrams to every port that receives heartbeats, once there is one.
    net.on(1, || {
        let socket = UdpSocket::bind("10.9.0.2:0").expect("a socket");
        let own = socket.local_addr().expect("an address").port();
        let until = Instant::now() + Duration::from_secs(20);
        let ports = loop {
            let list = std::fs::read_to_string("/proc/thread-self/net/udp").expect("a list");
            let port = |line: &str| {
                let (_, word) = line.split_whitespace().nth(1)?.split_once(':')?;
                u16::from_str_radix(word, 16).ok().filter(|&port| port != own)
            };
            let ports: Vec<u16> = list.lines().skip(1).filter_map(port).collect();
            if !ports.is_empty() {
                break ports;
            }
            assert!(Instant::now() < until, "no process listens for heartbeats: {list}");
            std::thread::yield_now();
        };
        for port in ports {
            for length in [0, 1, 12, 60, 1400] {
                socket.send_to(&vec![9; length], ("10.9.0.2", port)).expect("it is sent");
            }
        }
    });
    run.wait_for("a heartbeat from 10.9.0.2");
    let outcome = ends_well(run);
    let refused = outcome.count("was refused: not of this job");
    outcome.check(refused == 7, "six connections and one datagram should be refused");
    outcome.check(outcome.count("lost") == 0, "nobody should be lost");
}

/// Returns the processor time of a process so far.
fn used(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, words) = stat.rsplit_once(") ").expect("a name in brackets");
    let ticks = |at| words.split(' ').nth(at).and_then(|word| word.parse::<u64>().ok());
    let (user, system) = (ticks(11).expect("a number"), ticks(12).expect("a number"));
    Duration::from_millis(10 * (user + system)) // the kernel counts hundredths here
}

#[test]
fn a_launcher_without_descriptors_keeps_connections_pending_without_spinning() {
    let net = Net::new(2);
    let mut run = steps(net.job(&[1, 0])).until("ready");
    let (at, launcher) = (address(&run), run.launcher());
    let pid = Pid::from_raw(launcher as i32).expect("a process");
    let has = |fd: &u64| Path::new(&format!("/proc/{launcher}/fd/{fd}")).exists();
    let open = (0..).find(|fd| !has(fd)).expect("a number that is free");
    let limit = |current| {
        let new = Rlimit { current, ..getrlimit(Resource::Nofile) };
        prlimit(Some(pid), Resource::Nofile, new).expect("it may be limited")
    };
    let before = limit(Some(open));
    let mut stranger = net.on(1, move || {
        let mut stream = TcpStream::connect(at).expect("the launcher listens");
        stream.write_all(&[0; 64]).expect("it is sent");
        stream
    });
    run.wait_for("no connection can be accepted for now: Too many open files");
    let (begun, so_far) = (Instant::now(), used(launcher));
    stranger.set_read_timeout(Some(LIMIT)).expect("a limit");
    // Unlike a plain read it continues when a signal interrupts it.
    let waits = stranger.read_exact(&mut [0]).map_err(|error| error.kind());
    assert_eq!(waits, Err(std::io::ErrorKind::WouldBlock), "it should wait");
    let (took, spent) = (begun.elapsed(), used(launcher) - so_far);
    assert!(spent < took / 4, "the launcher spun for {spent:?} of {took:?}");
    limit(before.current);
    run.wait_for("a connection from 10.9.0.2");
    let outcome = ends_well(run);
    let lines = outcome.count("no connection can be accepted");
    outcome.check(lines == 1, "it should be reported once");
}

/// A command that sends its agent through a relay, which records the agent's messages.
#[test]
fn a_replayed_recording_is_refused() {
    let net = Net::new(1);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("relay");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = folder.join("relay");
    let text = format!("#!/bin/sh\nexec ip netns exec \"$1\" \"$2\" \"$3\" {HUB}:7001 \"$5\"\n");
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("it may be run");
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&recorded);
    let (ready, is_ready) = std::sync::mpsc::channel();
    net.in_hub(move || {
        let listener = TcpListener::bind((HUB, 7001)).expect("the relay listens");
        ready.send(()).expect("the test waits");
        let (mut agent, _) = listener.accept().expect("the agent comes");
        let mut launcher = TcpStream::connect((HUB, 7000)).expect("the launcher listens");
        let mut back = (launcher.try_clone().expect("a copy"), agent.try_clone().expect("a copy"));
        std::thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
        let mut bytes = [0; 4096];
        while let Ok(got @ 1..) = agent.read(&mut bytes) {
            kept.lock().expect("nobody panics").extend_from_slice(&bytes[..got]);
            if launcher.write_all(&bytes[..got]).is_err() {
                break;
            }
        }
        let _ = launcher.shutdown(std::net::Shutdown::Both);
    });
    is_ready.recv().expect("the relay is ready");
    let command = format!("{} {{host}}", script.display());
    let words = ["--hosts", &net.list(&[1]), "--listen", &format!("{HUB}:7000")];
    let job = Job::of(&words).args(&["--launch-agent", &command]).inside(&net.hub_path());
    let mut run = steps(job).until("ready");
    let bytes = recorded.lock().expect("nobody panics").clone();
    assert!(bytes.len() > 200, "the relay kept what the agent said");
    net.on(0, move || {
        connect_and_send(SocketAddr::new(HUB.parse().expect("an address"), 7000), &bytes)
    });
    run.wait_for("was refused: not of this job");
    let outcome = ends_well(run);
    outcome.check(outcome.count("was refused") == 1, "one line was expected");
}

/// Swallowed packets cause no error: only the sender's kernel notices that no answer arrives.
#[test]
fn a_control_connection_whose_packets_are_swallowed_is_over_within_its_limit() {
    let net = Net::new(2);
    let listener = net.on(1, || TcpListener::bind("10.9.0.2:0").expect("it listens"));
    let at = listener.local_addr().expect("an address");
    let near = net.on(0, move || TcpStream::connect(at).expect("it is heard"));
    let (far, _) = listener.accept().expect("it comes");
    let secret = || Secret([5; SECRET_LEN]);
    let mut ends = [(near, Side::Agent), (far, Side::Launcher)].map(|(stream, side)| {
        Link::Net(Box::new(Sealed::new(stream, side, &secret()).expect("a socket")))
    });
    let hello = Hello { build: "0".into(), node: 1, beats: 1 };
    let [near, far] = &mut ends;
    near.send(&hello, &[]).expect("it is sent");
    let (until, moment) = (Instant::now() + LONG, Duration::from_millis(10));
    while far.receive::<Hello>(moment).expect("a connection").is_none() {
        assert!(Instant::now() < until, "the link works");
        near.receive::<Hello>(moment).expect("a connection"); // its part of the handshake
    }
    // An answer acknowledges everything before it: the limit covers only what follows.
    far.send(&hello, &[]).expect("it is sent");
    assert!(near.receive::<Hello>(LONG).expect("a connection").is_some(), "the link works");
    near.give_up_after(LIMIT);
    net.link(1, false);
    let begun = Instant::now();
    near.send(&hello, &[]).expect("the kernel takes it");
    assert!(near.receive::<Hello>(LONG).is_err(), "nothing tells that the connection is over");
    // The kernel decides by past round trips how far the limit is exceeded.
    let took = begun.elapsed();
    assert!(took >= LIMIT / 2, "it is over after {took:?}");
}

/// True if a word could be the secret: 64 hexadecimal digits.
fn holds_a_secret(bytes: &[u8]) -> bool {
    bytes.split(|byte| !byte.is_ascii_hexdigit()).any(|word| word.len() >= 2 * SECRET_LEN)
}

#[test]
fn the_secret_is_on_no_command_line_and_in_no_environment() {
    let net = Net::new(2);
    let run = steps(net.job(&[1, 0])).until("ready");
    let found = run.processes();
    assert!(found.len() >= 6, "launcher, two supervisors, two agents, a PE");
    for process in found {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
            assert!(!holds_a_secret(&bytes), "{file} of {}", process.line());
        }
    }
    assert!(holds_a_secret(format!("a={}", Secret([9; SECRET_LEN]).to_hex()).as_bytes()));
    ends_well(run);
}
