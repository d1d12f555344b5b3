//! The agent's look at what its PEs wait in, for the launcher to say when that lasts too long.
//!
//! It reads the control words of each PE, which takes no help of the PE: one that is stopped is
//! read like any other. How long a wait lasts is counted from the first look at it.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::Agent;
use crate::control::message::{Up, Wait};
use crate::launch::detector::Time;
use crate::sys::process::is_stopped;
use crate::sys::socket::ChannelError;

/// Looks within the limit: a wait is told of to a fraction of that.
const LOOKS: u32 = 8;
/// Longest and shortest time between two.
const RARELY: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(20);

/// A wait: its PE, and the thread and serial of it.
type Key = (u32, (u8, u64));

/// When to look, and what was seen.
pub struct Looks {
    limit: Duration,
    next: Time,
    /// Waits that last, and since when.
    since: BTreeMap<Key, Time>,
    /// The launcher was told of some.
    told: bool,
}

impl Looks {
    /// None if nobody wants to know.
    pub fn new(limit: Option<Duration>, time: Time) -> Option<Looks> {
        let (since, told) = (BTreeMap::new(), false);
        limit.map(|limit| Looks { limit, next: time, since, told })
    }

    /// When to look again.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Of the waits there are those that have lasted for a quarter of the limit, with their times.
    fn lasting(&mut self, time: Time, mut waits: Vec<Wait>) -> Vec<Wait> {
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

impl Agent {
    /// Tells the launcher who waits for long and who is stopped, when it is time to look.
    pub(super) fn look_for_waits(&mut self, time: Time) -> Result<(), ChannelError> {
        let Some(looks) = self.heart.looks.as_mut().filter(|looks| looks.next <= time) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::Whom;

    fn wait(pe: u32, serial: u64) -> Wait {
        Wait {
            pe,
            serial: (0, serial),
            looks: 0,
            lasted: Duration::ZERO,
            call: "shmem_barrier_all".into(),
            whom: Whom::Anyone,
            agreed: 0,
        }
    }

    #[test]
    fn a_wait_lasts_from_the_first_look_at_it() {
        let second = Duration::from_secs;
        let mut looks = Looks::new(Some(second(8)), second(100)).unwrap();
        let lasted = |waits: Vec<Wait>| waits.iter().map(|w| (w.pe, w.lasted)).collect::<Vec<_>>();
        assert_eq!(lasted(looks.lasting(second(100), vec![wait(0, 1)])), []);
        assert_eq!(lasted(looks.lasting(second(101), vec![wait(0, 1), wait(1, 1)])), []);
        let both = vec![wait(0, 1), wait(1, 1)];
        assert_eq!(lasted(looks.lasting(second(102), both)), [(0, second(2))]);
        // Another wait of the same thread begins anew, and so does one that was not seen between.
        assert_eq!(lasted(looks.lasting(second(109), vec![wait(0, 5)])), []);
        assert_eq!(lasted(looks.lasting(second(110), vec![wait(1, 1)])), []);
        assert!(Looks::new(None, second(1)).is_none());
    }
}
