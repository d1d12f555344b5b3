//! The orders of an agent, and their scheduling.
//!
//! Heartbeats and the order to end are handled at once. All other orders are carried out in
//! sequence, in short slices between checks of the clock and the connections: starting thousands of
//! processes takes longer than a node's lease, and the messages that renew the lease are queued
//! behind those orders.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use raidshmem_core::message::Down;
use raidshmem_sys::socket::ChannelError;

use super::Agent;

/// The time slice for carrying out orders.
const SLICE: Duration = Duration::from_millis(5);

impl Agent {
    /// Receives pending orders. Returns true when ordered to end.
    pub(super) fn hear_orders(&mut self) -> Result<bool, ChannelError> {
        self.up.flush()?;
        while let Some((message, fds)) = self.up.try_receive::<Down>()? {
            match self.take_news(message)? {
                None => {}
                Some(Down::Abort) => self.abort_pes(),
                Some(Down::Shutdown) => {
                    self.orders.clear();
                    return Ok(true);
                }
                Some(Down::Die) => {
                    use rustix::process::{Signal, getpid, kill_process};
                    let _ = kill_process(getpid(), Signal::KILL);
                }
                Some(order) => self.orders.push_back((order, fds)),
            }
        }
        Ok(false)
    }

    /// Carries out queued orders for one time slice.
    pub(super) fn carry_out(&mut self) -> Result<(), ChannelError> {
        let end = Instant::now() + SLICE;
        while let Some((order, fds)) = self.orders.pop_front() {
            self.execute(order, fds)?;
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }
}
