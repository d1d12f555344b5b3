//! The sources of an agent's wake-ups.

#![forbid(unsafe_code)]

use raidshmem_core::message::ProcId;

/// A source of a wake-up.
pub(super) enum Source {
    Launcher,
    Datagram,
    Channel(ProcId),
    End(ProcId),
    Input,
    Worker,
    Disk,
    StopSignal,
}
