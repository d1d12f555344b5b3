//! The agent's watch over its PEs: those that are stopped for too long, and those that wait for
//! long, from which the launcher reports waits that last too long.
//!
//! It reads the control words of each PE. The PE takes no part, so a stopped PE is read like any
//! other. The duration of a wait is counted from the first check that sees it.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use raidshmem_core::detector::MachineTime;
use raidshmem_core::message::{ProcId, Up, Wait};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::settings::Settings;
use raidshmem_sys::process::is_stopped;
use raidshmem_sys::socket::ChannelError;

use super::looks::Looks;
use super::processes::LocalProcesses;
use super::uplink::Uplink;

/// The number of checks per limit, hence the resolution of a wait's reported duration.
const LOOKS: u32 = 8;
/// The longest and the shortest interval between checks.
const RARELY: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);

/// The watch over stopped and waiting PEs.
pub(super) struct PeWatch {
    limit: Option<Duration>,
    /// Stopped PEs, and the time at which each was first seen so.
    stopped: BTreeMap<ProcId, MachineTime>,
    /// The monitor of long waits of PEs.
    looks: Option<Looks>,
}

impl PeWatch {
    /// Creates the watch with the limits of these settings.
    pub fn new(settings: &Settings, now: MachineTime) -> PeWatch {
        let looks = Looks::new(settings.stall, now);
        PeWatch { limit: settings.pe_timeout, stopped: BTreeMap::new(), looks }
    }

    /// Returns the time of the next check.
    pub fn next(&self) -> Option<MachineTime> {
        self.looks.as_ref().map(Looks::next)
    }

    /// Kills PEs that have been stopped for longer than the limit, if there is one.
    pub fn check_stopped(
        &mut self,
        time: MachineTime,
        procs: &LocalProcesses,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        let at_once = breaks(Mutant::StoppedIsDead).then_some(Duration::ZERO);
        let Some(limit) = self.limit.or(at_once) else { return Ok(()) };
        let all = procs.all();
        let stopped = all.iter().filter(|(_, local)| is_stopped(local.carrier().pid));
        let stopped: Vec<_> = stopped.collect();
        self.stopped.retain(|known, _| stopped.iter().any(|(proc, _)| *proc == known));
        for (&proc, local) in stopped {
            let since = *self.stopped.entry(proc).or_insert(time);
            if time - since < limit {
                continue;
            }
            local.kill();
            let who = local.pe.map_or("a process".to_owned(), |pe| format!("PE {pe}"));
            up.note(format!(
                "{who} was stopped for longer than SHMEM_FT_PE_TIMEOUT={}: it is killed",
                limit.as_secs_f64()
            ))?;
        }
        Ok(())
    }

    /// Reports long waits and stopped PEs to the launcher, when a check is due.
    pub fn check_waits(
        &mut self,
        time: MachineTime,
        procs: &LocalProcesses,
        up: &mut Uplink,
    ) -> Result<(), ChannelError> {
        let Some(looks) = self.looks.as_mut().filter(|looks| looks.next <= time) else {
            return Ok(());
        };
        looks.next = time + (looks.limit / LOOKS).clamp(OFTEN, RARELY);
        let (mut waits, mut stopped) = (Vec::new(), Vec::new());
        for local in procs.all().values() {
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
            up.send(&Up::Waits { waits, stopped })?;
        }
        Ok(())
    }
}
