//! What an agent says of its disk before a job begins from one.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use raidshmem_core::message::{Down, Up};
use raidshmem_sys::socket::ChannelError;

use raidshmem_control::link::Link;
use raidshmem_disk::held;

/// Says what the disk here has as often as that is asked for; what comes after it, if `first` came
/// first. Each order may take `wait`.
pub fn answer(
    up: &mut Link,
    mut first: Option<(Down, Vec<OwnedFd>)>,
    wait: Duration,
) -> Result<Option<(Down, Vec<OwnedFd>)>, ChannelError> {
    while let Some((Down::List { folder }, _)) = &first {
        up.send(&Up::Held(held::list(Path::new(folder))), &[])?;
        first = up.receive(wait)?;
    }
    Ok(first)
}
