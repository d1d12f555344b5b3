//! What a process did last, to be read when a job hangs: events of `tracing`, kept in a ring.
//!
//! The ring of a PE lies in its segment, which its agent holds: it can be read while the PE is
//! stopped, and outlives its process ([`Ring`]). The ring of a launcher or an agent is its own
//! memory. Events are of two levels: `info` for what is rare (views, steps of a checkpoint and a
//! recovery, processes, connections), `debug` for each call that waits for long. Puts, gets and
//! atomics make none, at any level.
//!
//! Left out: spans, and how the events are shown (`launch`).

#![forbid(unsafe_code)]

use std::fmt::{Debug, Write};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use raidshmem_core::layout::TRACE;
use raidshmem_core::message::Traced;
use raidshmem_core::quantity::Incarnation;
use rustix::time::{ClockId, clock_gettime};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use raidshmem_segment::ring::{self, Ring};

/// Takes the events of this process.
struct Recorder {
    ring: Ring<'static>,
    incarnation: Incarnation,
    level: LevelFilter,
    /// Shows each event to people, too, whatever its level.
    print: Option<fn(&str)>,
}

/// The words of an event: its message, and its other fields behind it.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A string takes whatever is written.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("raidshmem");
        ours && metadata.is_event() && self.max_level_hint() >= Some((*metadata.level()).into())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.print.is_some() { LevelFilter::DEBUG } else { self.level })
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        if *event.metadata().level() <= self.level {
            self.ring.write(now(), self.incarnation, &words.0);
        }
        if let Some(print) = self.print {
            print(&words.0);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1) // no span is enabled
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Microseconds since 1970.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
}

/// From now on events of this process up to `level` go into `ring`, and all of them to `print`. A
/// Rust program that has a subscriber of its own keeps it, and gets the events instead.
pub fn begin(
    ring: Ring<'static>,
    incarnation: Incarnation,
    level: LevelFilter,
    print: Option<fn(&str)>,
) {
    if level == LevelFilter::OFF && print.is_none() {
        return;
    }
    ring.inherit();
    let recorder = Recorder { ring, incarnation, level, print };
    let _ = tracing::subscriber::set_global_default(recorder);
}

/// From now on events of this launcher or agent are kept.
pub fn begin_own() {
    begin(own(), Incarnation::FIRST, LevelFilter::INFO, None);
}

/// The ring of a launcher or an agent, which begins with the first call.
pub fn own() -> Ring<'static> {
    static MEMORY: OnceLock<Box<[AtomicU64]>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| (0..TRACE / 8).map(|_| AtomicU64::new(0)).collect());
    Ring::of(memory)
}

/// The last events of a ring, at most so many, each with the name of its process, which takes the
/// incarnation.
pub fn last_events(ring: Ring, most: usize, who: impl Fn(u32) -> String) -> Vec<Traced> {
    let events = ring.events();
    let skipped = events.len().saturating_sub(most);
    let line = |event: &ring::Event| format!("{}: {}", who(event.incarnation.0), event.text);
    let traced = |event: &ring::Event| Traced { micros: event.micros, line: line(event) };
    events[skipped..].iter().map(traced).collect()
}

/// The time of day, to the microsecond (UTC), for people who compare it with other records.
pub fn time_of_day(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_micros(time).to_string();
    text.split_once('T').map(|(_, time)| time.to_owned()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn events_are_kept_by_their_level_with_their_fields() {
        let memory: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let memory: &'static [AtomicU64] = Box::leak(memory.into_boxed_slice());
        let ring = Ring::of(memory);
        let recorder =
            Recorder { ring, incarnation: Incarnation(2), level: LevelFilter::INFO, print: None };
        tracing::subscriber::with_default(recorder, || {
            tracing::info!(pe = 3, "view {}", 7);
            tracing::debug!("not at this level");
            tracing::info!(target: "somebody_else", "not ours");
        });
        let events = ring.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!((&*events[0].text, events[0].incarnation.0), ("view 7 pe=3", 2));
        assert!(events[0].micros > 1_700_000_000_000_000, "{events:?}");
    }

    #[test]
    fn times_of_day_are_those_of_the_clock() {
        let at = |micros| time_of_day(UNIX_EPOCH + Duration::from_micros(micros));
        assert_eq!(at(1_763_872_124_000_042), "04:28:44.000042Z");
        assert_eq!(at(0), "00:00:00.000000Z");
    }
}
