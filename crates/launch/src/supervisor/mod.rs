//! The node supervisor, which starts a node's agent on another host and cleans up after it.
//!
//! ```text
//! launcher --- ssh, srun or any command --- supervisor --- agent --- PEs
//!     \________________ sealed TCP _____________________/
//! ```
//!
//! The supervisor reads the job's secret from its standard input, starts the agent and waits. When
//! the agent has ended, it kills all remaining processes of the node, and only then prints its last
//! word ([`last_word`]) on standard error, and exits with [`ALL_DEAD`](super::handshake::ALL_DEAD)
//! unless the agent was ordered to end. Either one proves to the launcher that no process of the
//! node is running. The last word is needed because not every command that starts a supervisor
//! passes its status on; no other process can forge it. EOF on standard input means that the
//! launcher is gone, and ends the node.
//!
//! A batch system sends its signals to the supervisor, which passes [`PASSED`] on to the agent,
//! since one of them may ask for a stop with a checkpoint on disk. Other signals end it, and with
//! it the node.
//!
//! A node whose lease expires is ended by its agent, or by the kernel if the agent cannot do so
//! ([`process::Deadline`]): the supervisor then finds the agent killed, and its PEs died with it.

#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use raidshmem_control::link::timespec;
use raidshmem_core::ended::Ended;
use raidshmem_core::message::Down;
use raidshmem_core::secret::{SECRET_LEN, Secret};
use raidshmem_sys::process::{self, Process};
use raidshmem_sys::socket::Channel;
use rustix::event::{PollFd, PollFlags, poll};

use super::bell::caught;
use super::handshake::{AGENT_ARGUMENT, JoinError, last_word};
use super::lines::{print, say};

/// Time limit for the secret to arrive.
const SECRET: Duration = Duration::from_secs(60);

/// Signals passed on to the agent.
const PASSED: [i32; 3] = [libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// Supervises node `words[1]` of the launcher at `words[0]`. Returns true if its agent was ordered
/// to end.
pub fn run(words: &[String]) -> Result<bool, JoinError> {
    let (Some(launcher), Some(node)) = (
        words.first().and_then(|word| word.parse::<SocketAddr>().ok()),
        words.get(1).and_then(|word| word.parse::<u32>().ok()),
    ) else {
        return Err(JoinError::ByHand);
    };
    let secret = read_secret()?;
    process::adopt_orphans()?;
    let (mine, theirs) = Channel::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(AGENT_ARGUMENT).arg(theirs.as_fd().as_raw_fd().to_string());
    command.stdin(std::process::Stdio::null());
    let bell = |signal| Ok((signal, caught(signal)?));
    let bells = PASSED.into_iter().map(bell).collect::<io::Result<Vec<_>>>()?;
    let agent = Process::start(&mut command, Some(theirs.as_fd()), false)?;
    drop(theirs);
    let word = last_word(&secret, node);
    mine.send(&Down::Join { launcher, node, secret }, &[])?;
    let ended = watch(&agent, &bells);
    agent.kill();
    agent.wait_end(10_000);
    let how = agent.reap();
    process::end_children();
    if let Some(how @ Ended::Killed(_)) = how.filter(|_| ended) {
        say(&JoinError::Killed { node, how }.to_string());
    }
    print(format!("{word}\n"));
    Ok(how == Some(Ended::Exited(0)))
}

/// Waits. Returns true when the agent has ended, and false when the launcher is gone.
fn watch(agent: &Process, bells: &[(i32, UnixStream)]) -> bool {
    let stdin = io::stdin();
    let mut rest = [0; 64];
    loop {
        let own = [PollFd::new(agent, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        let rings = bells.iter().map(|(_, bell)| PollFd::new(bell, PollFlags::IN));
        let mut fds: Vec<PollFd> = own.into_iter().chain(rings).collect();
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0]
            || ready[1] && matches!(rustix::io::read(stdin.as_fd(), &mut rest), Ok(0) | Err(_))
        {
            return ready[0];
        }
        for ((signal, bell), _) in bells.iter().zip(&ready[2..]).filter(|(_, rings)| **rings) {
            let _ = rustix::io::read(bell, &mut rest);
            agent.signal(*signal);
        }
    }
}

/// Reads one line of hexadecimal digits, and not a byte more.
pub fn read_secret() -> Result<Secret, JoinError> {
    let mut line = [0; 2 * SECRET_LEN + 1];
    let mut stdin = io::stdin();
    let limit = timespec(SECRET);
    let ready = poll(&mut [PollFd::new(&stdin.as_fd(), PollFlags::IN)], Some(&limit));
    if !matches!(ready, Ok(1)) || stdin.read_exact(&mut line).is_err() {
        return Err(JoinError::ByHand);
    }
    let text = std::str::from_utf8(&line[..2 * SECRET_LEN]).ok();
    text.and_then(Secret::from_hex).ok_or(JoinError::ByHand)
}
