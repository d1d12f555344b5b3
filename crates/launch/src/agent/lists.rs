//! What an agent says of its disk before a job begins from one.

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

/// How long the disks of the other nodes may take to be read.
const READ: Duration = Duration::from_secs(24 * 3600);

/// Says what the disk here has, and what of it holds, as often as that is asked for; what comes
/// after it, if `first` came first.
pub fn answer(
    up: &mut Link,
    mut first: Option<(Down, Vec<OwnedFd>)>,
) -> Result<Option<(Down, Vec<OwnedFd>)>, ChannelError> {
    loop {
        let answer = match &first {
            Some((Down::List { folder }, _)) => Up::Held(held::list(Path::new(folder))),
            Some((Down::Check { folders }, _)) => {
                let cpus = process::usable();
                let pool = WorkerPool::new(pool::fair(cpus.len(), 1), cpus);
                Up::Checked(held::check(folders, &pool))
            }
            _ => return Ok(first),
        };
        up.send(&answer, &[])?;
        first = up.receive(READ)?;
    }
}
