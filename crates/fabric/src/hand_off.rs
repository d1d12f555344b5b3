//! The hand-off of polling between an engine's thread and threads that wait anyway.
//!
//! A message would wake the engine's thread in addition to the waiting ones, which costs them more
//! than polling does. So the engine's thread stays away while others poll, and returns when one of
//! them goes to sleep. Over RDMA this, together with the waiters' polling time, cut a put from 964
//! to 640 us (`benches/notes.md`).
//!
//! Invariant: a waiting thread that sleeps after [`HandOff::hand_over`] leaves the engine's thread
//! polling or about to poll.
//!
//! Left out: the polling itself, and the length of a pause.

use std::time::Duration;

use raidshmem_sys::futex;

use crate::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// The state that the threads of a process share.
#[derive(Debug, Default)]
pub struct HandOff {
    /// Incremented by every poll of a waiting thread.
    looks: AtomicU32,
    /// Incremented when such a thread goes to sleep; the engine's thread sleeps on it while away.
    alarm: AtomicU32,
    away: AtomicBool,
}

/// The number of alarms at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alarm(u32);

/// The polls and alarms that the engine's thread has seen.
#[derive(Debug, Default)]
pub struct Seen {
    looks: u32,
    alarm: Alarm,
}

impl HandOff {
    /// Records that a waiting thread polls.
    #[inline]
    pub fn look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed); // records only that a thread is here
    }

    /// Reports that a waiting thread goes to sleep: the engine's thread takes over.
    #[inline]
    pub fn hand_over(&self) {
        self.alarm.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence of `stay_away`
        if self.away.load(Ordering::Relaxed) {
            futex::wake_all(&self.alarm);
        }
    }

    /// Returns the alarms so far. The engine's thread takes them before it looks for work.
    pub fn alarm(&self) -> Alarm {
        Alarm(self.alarm.load(Ordering::Acquire))
    }

    /// Returns true if waiting threads have polled since the last call, and none had gone to sleep
    /// at `alarm`: the engine's thread may stay away.
    pub fn others_poll(&self, seen: &mut Seen, alarm: Alarm) -> bool {
        let looks = self.looks.load(Ordering::Relaxed);
        let before = std::mem::replace(seen, Seen { looks, alarm });
        before.looks != looks && before.alarm == alarm
    }

    /// Lets the engine's thread sleep for `pause`, or until an alarm after `alarm`.
    pub fn stay_away(&self, alarm: Alarm, pause: Duration) {
        self.away.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst); // pairs with the fence of `hand_over`
        futex::sleep_while(&self.alarm, alarm.0, pause);
        self.away.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_stays_away_while_others_poll_and_returns_when_one_sleeps() {
        let (hand_off, mut seen) = (HandOff::default(), Seen::default());
        let polls = |seen: &mut Seen| hand_off.others_poll(seen, hand_off.alarm());
        assert!(!polls(&mut seen), "nobody is there");
        hand_off.look();
        assert!(polls(&mut seen));
        assert!(!polls(&mut seen), "it left without a word");
        hand_off.look();
        hand_off.hand_over();
        assert!(!polls(&mut seen), "it sleeps");
        let before = hand_off.alarm();
        hand_off.hand_over();
        hand_off.stay_away(before, Duration::from_secs(3600)); // returns at once
    }
}
