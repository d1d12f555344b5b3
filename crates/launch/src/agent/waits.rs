//! The agent's check for waiting PEs, from which the launcher reports waits that last too long.
//!
//! It reads the control words of each PE. The PE takes no part, so a stopped PE is read like any
//! other. The duration of a wait is counted from the first check that sees it.

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_core::detector::MachineTime;
use raidshmem_core::message::{Up, Wait};
use raidshmem_sys::process::is_stopped;
use raidshmem_sys::socket::ChannelError;

use super::Agent;

/// The number of checks per limit, hence the resolution of a wait's reported duration.
const LOOKS: u32 = 8;
/// The longest and the shortest interval between checks.
const RARELY: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);

impl Agent {
    /// Reports long waits and stopped PEs to the launcher, when a check is due.
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
