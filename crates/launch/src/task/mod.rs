//! Tasks of another launcher: `srun ./program` and `flux run ./program` start one process per PE.
//!
//! Before its `main`, each becomes a task of this module ([`raidshmem_sys::tasks`]): they find each
//! other by PMI-1, and then serve one job, which runs as if by `oshrun`:
//!
//! ```text
//! task 0              starts the launcher, with the hosts of the step, and ends with its status
//! first task of a host  starts the agent of its host for the launcher
//! any other task      waits for the end of the job
//! ```
//!
//! PEs are processes of the agents, with the arguments, folder and variables of task 0: their load
//! addresses are alike, and the death of a PE is not that of a task, for which many sites end the
//! step. Tasks other than task 0 ignore the signals that the launcher of the step sends to all.
//!
//! Invariant: if a task is gone, so is what it started; the end of task 0 ends all other tasks.
//!
//! Left out: launchers with PMIx alone; a task per PE that can be killed on its behalf.

#![forbid(unsafe_code)]

pub mod layout;
pub mod pmi;
pub mod relay;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use raidshmem_control::link::{Link, Net};
use raidshmem_control::noise::Side;
use raidshmem_core::message::TaskMessage;
use raidshmem_core::secret::Secret;
use raidshmem_sys::lock;
use raidshmem_sys::process::{self, Process};
use rustix::event::{PollFd, PollFlags, poll};

use crate::bell::caught;
use crate::cli::starter::quote;
use crate::handshake::{SECRET_FD, STARTER_ARGUMENT, random_secret};
use crate::lines::say;
use layout::{HostTasks, TaskReport};
use pmi::{Pmi, PmiError};
use relay::{connect, forget_step, serve};

/// The file with the name of this host.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The key of the job's secret.
const SECRET: &str = "raidshmem-secret";
/// Time limit for a connection to prove that it belongs to the step.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for a wait, after which it is repeated.
const AGAIN: Duration = Duration::from_secs(3600);
/// The maximum number of connections that have not proven anything.
const PENDING_MAX: usize = 256;
/// The signals that the launcher of a step passes on to all of its tasks.
const PASSED: [i32; 6] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// An error of a task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The tasks could not find each other.
    #[error("{0}: expected a step with PMI-1 (srun --mpi=pmi2), or oshrun -n N PROGRAM")]
    Pmi(#[from] PmiError),
    /// Another program took the place of this one in a task.
    #[error("task {rank} is of another program: `{word}`")]
    Foreign {
        /// Its rank.
        rank: u32,
        /// Its report.
        word: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The object of the call.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> TaskError {
    move |error| TaskError::System { what, error }
}

/// A task of a step.
pub struct Task {
    /// The connection to the server of PMI.
    pub pmi: OwnedFd,
    /// Its number, from 0.
    pub rank: u32,
    /// The number of tasks.
    pub size: u32,
}

/// The tasks of a step, as each of them knows them.
struct MetTasks {
    listener: TcpListener,
    hosts: Vec<HostTasks>,
    secret: Secret,
}

/// Takes part in the job of a step, whose PEs run `program`. Returns the exit status of the task:
/// that of the job for task 0, and otherwise 0.
///
/// # Errors
/// The tasks cannot find or reach each other.
pub fn run(task: Task, program: Vec<OsString>) -> Result<i32, TaskError> {
    let rank = task.rank;
    let step = meet(task)?;
    let own = step.hosts.iter().position(|host| host.ranks.contains(&rank)).unwrap_or(0);
    if step.hosts[own].ranks[0] != rank {
        let first = connect(&Ipv4Addr::LOCALHOST.to_string(), step.hosts[own].port, &step.secret);
        return Ok(wait(first.map_err(system("the first task of this host"))?));
    }
    process::stay_on(&step.hosts[own].cpus);
    if own != 0 {
        let leader = connect(&step.hosts[0].name, step.hosts[0].port, &step.secret);
        let leader = leader.map_err(system("task 0"))?;
        let served = Served::begin(step.listener, step.secret).map_err(system("socket"))?;
        let status = wait(leader);
        served.end();
        return Ok(status);
    }
    if !layout::is_in_blocks(&step.hosts) {
        say("tasks are not in blocks: PEs are numbered host by host, not as tasks are");
    }
    let words = launcher_words(&step.hosts, program).map_err(system("/proc/self/exe"))?;
    let secret = step.secret.clone();
    let served = Served::begin(step.listener, step.secret).map_err(system("socket"))?;
    let status = launch(words, &secret).map_err(system("launcher"))?;
    served.end();
    Ok(status)
}

/// Exchanges the reports of all tasks.
fn meet(task: Task) -> Result<MetTasks, TaskError> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(system("socket"))?;
    let port = listener.local_addr().map_err(system("socket"))?.port();
    let host = std::fs::read_to_string(HOST_NAME).map_err(system(HOST_NAME))?.trim().to_owned();
    let report = TaskReport { host, port, cpus: process::usable() };
    let mut pmi = Pmi::connect(task.pmi)?;
    let key = |rank: u32| format!("raidshmem-{rank}");
    pmi.put(&key(task.rank), &report.encode())?;
    if task.rank == 0 {
        pmi.put(SECRET, &random_secret().map_err(system("random bytes"))?.to_hex())?;
    }
    pmi.fence()?;
    let mut reports = Vec::new();
    for rank in 0..task.size {
        let word = pmi.get(&key(rank))?;
        let report = TaskReport::decode(&word).ok_or(TaskError::Foreign { rank, word });
        reports.push(report?);
    }
    let word = pmi.get(SECRET)?;
    pmi.finish()?;
    let secret = Secret::from_hex(&word).ok_or(TaskError::Foreign { rank: 0, word })?;
    Ok(MetTasks { listener, hosts: layout::hosts(&reports), secret })
}

/// Returns the words of the launcher: this program, with the hosts of the step.
fn launcher_words(hosts: &[HostTasks], program: Vec<OsString>) -> io::Result<Vec<OsString>> {
    let oshrun = std::env::current_exe()?;
    let counts: Vec<String> =
        hosts.iter().map(|host| format!("{}:{}", host.name, host.ranks.len())).collect();
    let ports: Vec<String> =
        hosts.iter().map(|host| format!("{}:{}", host.name, host.port)).collect();
    let starter = format!(
        "{} {STARTER_ARGUMENT} {} {{host}} {{agent}}",
        quote(&oshrun.to_string_lossy()),
        quote(&ports.join(","))
    );
    let tasks: usize = hosts.iter().map(|host| host.ranks.len()).sum();
    let own = ["-n", &tasks.to_string(), "-H", &counts.join(","), "--launch-agent", &starter, "--"];
    let own = own.into_iter().map(OsString::from);
    Ok([oshrun.into_os_string()].into_iter().chain(own).chain(program).collect())
}

/// Returns the port of `host` in the list that [`launcher_words`] made.
pub fn port_of(ports: &str, host: &str) -> Option<u16> {
    let mut known = ports.split(',').filter_map(|word| word.rsplit_once(':'));
    known.find(|(name, _)| *name == host)?.1.parse().ok()
}

/// Runs the launcher, with the signals that this task receives, and returns its exit status. It
/// reads the secret of the step from a pipe.
fn launch(words: Vec<OsString>, secret: &Secret) -> io::Result<i32> {
    let (from, mut to) = io::pipe()?;
    to.write_all(secret.to_hex().as_bytes())?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    forget_step(&mut command);
    let bell = |signal| Ok((signal, caught(signal)?));
    let bells = PASSED.into_iter().map(bell).collect::<io::Result<Vec<_>>>()?;
    command.env(SECRET_FD, from.as_fd().as_raw_fd().to_string());
    let launcher = Process::start(&mut command, Some(from.as_fd()), false)?;
    loop {
        let mut fds = vec![PollFd::new(&launcher, PollFlags::IN)];
        fds.extend(bells.iter().map(|(_, bell)| PollFd::new(bell, PollFlags::IN)));
        let _ = poll(&mut fds, None);
        let rings: Vec<bool> = fds.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect();
        for ((signal, bell), _) in bells.iter().zip(rings).filter(|(_, rings)| *rings) {
            let _ = rustix::io::read(bell, &mut [0; 64]);
            launcher.signal(*signal);
        }
        if let Some(how) = launcher.reap() {
            return Ok(relay::status(how));
        }
    }
}

/// Waits for the end of the job, and returns the status of this task.
fn wait(mut link: Link) -> i32 {
    let _bells: Vec<_> = PASSED.into_iter().map(caught).collect(); // they are for task 0
    if link.send(&TaskMessage::Wait, &[]).is_err() {
        return 1;
    }
    loop {
        match link.receive(AGAIN) {
            Ok(Some((TaskMessage::Ended(_), _))) => return 0,
            Ok(_) => {}
            Err(_) => return 1, // its end was no orderly one
        }
    }
}

/// The service for starters and other tasks, by threads.
struct Served {
    shared: Arc<Shared>,
    /// Closed at the end of the job.
    over: UnixStream,
}

/// The state of the threads.
struct Shared {
    secret: Secret,
    waiting: Mutex<Vec<Link>>,
    /// Held while a supervisor runs; its content is closed at the end of the job.
    agent: Mutex<UnixStream>,
    pending: AtomicUsize,
}

impl Served {
    fn begin(listener: TcpListener, secret: Secret) -> io::Result<Served> {
        let (over, agent) = UnixStream::pair()?;
        let (waiting, pending) = (Mutex::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { secret, waiting, agent: Mutex::new(agent), pending });
        let all = Arc::clone(&shared);
        std::thread::Builder::new().name("tasks".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if all.pending.fetch_add(1, Ordering::Relaxed) >= PENDING_MAX {
                    all.pending.fetch_sub(1, Ordering::Relaxed);
                    continue; // dropped
                }
                let all = Arc::clone(&all);
                let _ = std::thread::Builder::new().spawn(move || all.answer(stream));
            }
        })?;
        Ok(Served { shared, over })
    }

    /// Ends the supervisor of this host, if it runs, and reports the end to the other tasks.
    fn end(self) {
        drop(self.over);
        let _agent = lock(&self.shared.agent);
        for link in lock(&self.shared.waiting).iter_mut() {
            let _ = link.send(&TaskMessage::Ended(0), &[]);
            link.drain(PATIENCE);
        }
    }
}

impl Shared {
    /// Serves a connection.
    fn answer(&self, stream: TcpStream) {
        let net = Net::new(stream, Side::Launcher, &self.secret);
        let link = net.ok().map(|net| Link::Net(Box::new(net)));
        let first = link.and_then(|mut link| Some((link.receive(PATIENCE).ok()??.0, link)));
        self.pending.fetch_sub(1, Ordering::Relaxed);
        match first {
            Some((TaskMessage::Wait, link)) => lock(&self.waiting).push(link),
            Some((TaskMessage::Start(words), link)) => {
                let over = lock(&self.agent);
                if !relay::is_closed(over.as_fd()) {
                    serve(link, &words, &over);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_gets_the_hosts_and_its_starter_their_ports() {
        let report = |host: &str, port| TaskReport { host: host.into(), port, cpus: vec![0] };
        let hosts = layout::hosts(&[report("a", 7), report("a", 8), report("b", 9)]);
        let words = launcher_words(&hosts, vec!["./x".into(), "-n".into()]).unwrap();
        let words: Vec<String> = words.into_iter().map(|w| w.into_string().unwrap()).collect();
        assert_eq!(words[1..6], ["-n", "3", "-H", "a:2,b:1", "--launch-agent"]);
        assert!(words[6].ends_with(" --raidshmem-start a:7,b:9 {host} {agent}"), "{}", words[6]);
        assert_eq!(words[7..], ["--", "./x", "-n"]);
        assert_eq!(port_of("a:7,b:9", "b"), Some(9));
        assert_eq!(port_of("a:7,b:9", "c"), None);
    }
}
