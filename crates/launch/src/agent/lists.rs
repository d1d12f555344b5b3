//! An agent's report on its disk, before a job begins from one.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use raidshmem_control::link::Link;
use raidshmem_core::message::{Down, Up};
use raidshmem_disk::held;
use raidshmem_sys::pool::{self, WorkerPool};
use raidshmem_sys::process;
use raidshmem_sys::socket::ChannelError;

/// Time limit for the other nodes' disks to be read.
const READ: Duration = Duration::from_secs(24 * 3600);

/// Lists and checks the sets on this disk as often as the launcher asks, starting with `first`.
/// Returns the first other message.
pub fn answer(
    up: &mut Link,
    mut first: Option<(Down, Vec<OwnedFd>)>,
) -> Result<Option<(Down, Vec<OwnedFd>)>, ChannelError> {
    loop {
        let Some(answer) = first.as_ref().and_then(|(question, _)| answer_to(question)) else {
            return Ok(first);
        };
        up.send(&answer, &[])?;
        first = up.receive(READ)?;
    }
}

/// Returns the answer to a question about this disk; None to any other message.
pub fn answer_to(question: &Down) -> Option<Up> {
    match question {
        Down::List { folder } => Some(Up::Held(held::list(Path::new(folder)))),
        Down::Check { folders } => {
            let cpus = process::usable();
            let pool = WorkerPool::new(pool::fair(cpus.len(), 1), cpus);
            Some(Up::Checked(held::check(folders, &pool)))
        }
        _ => None,
    }
}
