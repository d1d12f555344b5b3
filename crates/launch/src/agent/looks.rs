//! The schedule of an agent's checks for waiting PEs, and the selection of long waits (pure).

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use raidshmem_core::detector::MachineTime;
use raidshmem_core::message::Wait;
use raidshmem_core::quantity::Pe;

/// A wait: its PE, thread and serial number.
type Key = (Pe, (u8, u64));

/// The time of the next check, and the waits seen so far.
pub struct Looks {
    pub limit: Duration,
    pub next: MachineTime,
    /// Pending waits, and the time each was first seen.
    since: BTreeMap<Key, MachineTime>,
    /// True if the last report to the launcher named a wait or a stopped PE.
    pub told: bool,
}

impl Looks {
    /// Returns None if SHMEM_FT_STALL is off, that is, zero.
    pub fn new(limit: Duration, time: MachineTime) -> Option<Looks> {
        let (since, told) = (BTreeMap::new(), false);
        (!limit.is_zero()).then_some(Looks { limit, next: time, since, told })
    }

    /// Returns the time of the next check.
    pub fn next(&self) -> MachineTime {
        self.next
    }

    /// Returns the waits that have lasted for a quarter of the limit, with their durations.
    pub fn lasting(&mut self, time: MachineTime, mut waits: Vec<Wait>) -> Vec<Wait> {
        let before = std::mem::take(&mut self.since);
        for wait in &mut waits {
            let key = (wait.pe, wait.serial);
            let since = *self.since.entry(key).or_insert(*before.get(&key).unwrap_or(&time));
            wait.lasted = time - since;
        }
        waits.retain(|wait| wait.lasted >= self.limit / 4);
        waits
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::message::WaitTarget;
    use raidshmem_core::quantity::CheckpointNumber;

    use super::*;

    fn wait(pe: Pe, serial: u64) -> Wait {
        Wait {
            pe,
            serial: (0, serial),
            looks: 0,
            lasted: Duration::ZERO,
            call: "shmem_barrier_all".into(),
            whom: WaitTarget::Anyone,
            agreed: CheckpointNumber::START,
        }
    }

    #[test]
    fn a_wait_lasts_from_the_first_look_at_it() {
        let second = Duration::from_secs;
        let mut looks = Looks::new(second(8), second(100)).unwrap();
        let lasted = |waits: Vec<Wait>| waits.iter().map(|w| (w.pe, w.lasted)).collect::<Vec<_>>();
        assert_eq!(lasted(looks.lasting(second(100), vec![wait(Pe(0), 1)])), []);
        assert_eq!(lasted(looks.lasting(second(101), vec![wait(Pe(0), 1), wait(Pe(1), 1)])), []);
        let both = vec![wait(Pe(0), 1), wait(Pe(1), 1)];
        assert_eq!(lasted(looks.lasting(second(102), both)), [(Pe(0), second(2))]);
        // A new wait of a thread starts from zero, and so does one that a check did not see.
        assert_eq!(lasted(looks.lasting(second(109), vec![wait(Pe(0), 5)])), []);
        assert_eq!(lasted(looks.lasting(second(110), vec![wait(Pe(1), 1)])), []);
        assert!(Looks::new(Duration::ZERO, second(1)).is_none());
    }
}
