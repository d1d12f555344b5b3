//! The last events of a process, for diagnosing a job that hangs: `tracing` events in a ring.
//!
//! The ring of a PE lies in its segment, which its agent holds, so it can be read while the PE is
//! stopped and outlives the PE's process ([`Ring`]). The ring of a launcher or an agent is in its
//! own memory. Events have two levels: `info` for rare events (views, steps of a checkpoint or a
//! recovery, processes, connections), `debug` for each call that waits for long. Puts, gets and
//! atomics record no event at any level.
//!
//! Left out: spans, and how events are displayed (`launch`).

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

/// The `tracing` subscriber of this process.
struct Recorder {
    ring: Ring<'static>,
    incarnation: Incarnation,
    level: LevelFilter,
    /// Prints each event, whatever its level.
    print: Option<fn(&str)>,
}

/// The text of an event: its message, followed by its other fields.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
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

/// Returns the microseconds since 1970.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
}

/// Starts recording this process's events: those up to `level` go to `ring`, and all go to `print`.
/// A Rust program that has already set its own subscriber keeps it, and that subscriber gets the
/// events.
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

/// Starts recording the events of this launcher or agent.
pub fn begin_own() {
    begin(own(), Incarnation::FIRST, LevelFilter::INFO, None);
}

/// Returns the ring of this launcher or agent, allocated on first use.
pub fn own() -> Ring<'static> {
    static MEMORY: OnceLock<Box<[AtomicU64]>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| (0..TRACE / 8).map(|_| AtomicU64::new(0)).collect());
    Ring::of(memory)
}

/// Returns the last events of a ring, at most `most`, each prefixed with the name that `who`
/// returns for the incarnation of its process.
pub fn last_events(ring: Ring, most: usize, who: impl Fn(u32) -> String) -> Vec<Traced> {
    let events = ring.events();
    let skipped = events.len().saturating_sub(most);
    let line = |event: &ring::Event| format!("{}: {}", who(event.incarnation.0), event.text);
    let traced = |event: &ring::Event| Traced { micros: event.micros, line: line(event) };
    events[skipped..].iter().map(traced).collect()
}

/// Formats the time of day in UTC, to the microsecond, for comparison with other logs.
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
