//! The orders that an agent gets, and when it carries them out.
//!
//! The agent handles heartbeats and the end at once. It does everything else in order, for a short
//! time between two looks at the clock and at the connections. Thousands of processes take longer
//! to start than a node's lease, and what renews the lease comes behind the orders for them.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use raidshmem_core::message::Down;
use raidshmem_sys::socket::ChannelError;

use super::Agent;

/// How long orders are carried out before something else is looked at.
const SLICE: Duration = Duration::from_millis(5);

impl Agent {
    /// Receives what has come. True when told to end.
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

    /// Does what was ordered, or some of it.
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
