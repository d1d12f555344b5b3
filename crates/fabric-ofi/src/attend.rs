//! The thread that makes progress while the program computes.
//!
//! With a provider that has a descriptor to wait on, it sleeps until there is something to do.
//! Other providers must be polled: the pauses grow while nothing happens, and end when a thread of
//! the program goes to sleep.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use raidshmem_fabric::hand_off::{Alarm, Seen};
use raidshmem_fabric::turns::Turns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::links::Connections;
use crate::shared::Shared;

/// Time for which the thread leaves the work to threads that help.
const NAP: Duration = Duration::from_micros(200);
/// Maximum sleep of the thread.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The same while an operation cannot begin: no event may tell when it can.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };
/// Idle polls, after the last that found something, before the thread pauses between two of them.
const EAGER: u32 = 200;
/// Maximum time between two polls of a provider without a descriptor.
const PAUSE: Duration = Duration::from_micros(200);

/// The means to sleep until there is something to do.
#[derive(Debug)]
pub(super) struct Bell {
    /// Readable when the provider has something to do; `None` if it must be polled.
    pub provider: Option<OwnedFd>,
    /// Readable when the thread should end.
    pub end: OwnedFd,
}

/// Makes progress until it is stopped.
pub(super) fn attend(turns: &'static Turns<Connections>, shared: &Shared, bell: &Bell) {
    let (hand_off, mut seen, mut idle) = (&shared.hand_off, Seen::default(), 0u32);
    while !shared.stop.load(Ordering::SeqCst) {
        let alarm = hand_off.alarm();
        // The thread inside makes progress, and would have to wake a thread that waits for it.
        let Some(mut inside) = turns.try_enter() else {
            hand_off.stay_away(alarm, NAP);
            continue;
        };
        let worked = inside.progress(true);
        let suspects = inside.tend(false);
        let helped = hand_off.others_poll(&mut seen, alarm);
        let (rests, may_wait) = (inside.is_idle(), inside.slots.port.may_wait());
        drop(inside);
        shared.report(suspects);
        shared.progressed(worked);
        idle = if worked { 0 } else { idle.saturating_add(1) };
        match &bell.provider {
            _ if helped => hand_off.stay_away(alarm, NAP),
            Some(provider) if may_wait => sleep(bell, provider, if rests { REST } else { RETRY }),
            Some(_) => {}
            None => pause(shared, alarm, idle),
        }
    }
}

/// Sleeps until the provider has something to do, or the limit has passed.
fn sleep(bell: &Bell, provider: &OwnedFd, limit: Timespec) {
    let mut both = [PollFd::new(provider, PollFlags::IN), PollFd::new(&bell.end, PollFlags::IN)];
    let _ = poll(&mut both, Some(&limit));
}

/// Waits for a moment after `idle` polls that found nothing.
fn pause(shared: &Shared, alarm: Alarm, idle: u32) {
    match idle.checked_sub(EAGER) {
        None => std::thread::yield_now(),
        Some(idle) => {
            let pause = Duration::from_micros(10).saturating_mul(idle.saturating_add(1));
            shared.hand_off.stay_away(alarm, pause.min(PAUSE));
        }
    }
}
