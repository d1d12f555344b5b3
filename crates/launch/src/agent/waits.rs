//! The agent's look at what its PEs wait in, for the launcher to say when that lasts too long.
//!
//! It reads the control words of each PE. The PE need not help, so the agent reads one that is
//! stopped like any other. How long a wait lasts is counted from the first look at it.

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_core::detector::MachineTime;
use raidshmem_core::message::{Up, Wait};
use raidshmem_sys::process::is_stopped;
use raidshmem_sys::socket::ChannelError;

use super::Agent;

/// Looks within the limit: a wait is told of to a fraction of that.
const LOOKS: u32 = 8;
/// Longest and shortest time between two.
const RARELY: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);

impl Agent {
    /// Tells the launcher which PEs wait for long and which are stopped, when it is time to look.
    pub(super) fn look_for_waits(&mut self, time: MachineTime) -> Result<(), ChannelError> {
        let Some(looks) = self.heartbeat.looks.as_mut().filter(|looks| looks.next <= time) else {
            return Ok(());
        };
        looks.next = time + (looks.limit / LOOKS).clamp(OFTEN, RARELY);
        let (mut waits, mut stopped) = (Vec::new(), Vec::new());
        for local in self.procs.values() {
            let (Some(pe), Some(words)) = (local.pe, local.words()) else { continue };
            let entries = words.waits.entries().iter().zip(0..);
            for (shown, thread) in entries.filter_map(|(entry, at)| Some((entry.read()?, at))) {
                waits.push(Wait {
                    pe,
                    serial: (thread, shown.serial),
                    looks: shown.looks,
                    lasted: Duration::ZERO,
                    call: shown.call,
                    whom: shown.whom,
                    agreed: shown.agreed,
                });
            }
            if is_stopped(local.carrier().pid) {
                stopped.push(pe);
            }
        }
        let waits = looks.lasting(time, waits);
        let any = !(waits.is_empty() && stopped.is_empty());
        if std::mem::replace(&mut looks.told, any) || any {
            self.up.send(&Up::Waits { waits, stopped }, &[])?;
        }
        Ok(())
    }
}
