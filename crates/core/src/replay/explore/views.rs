//! The port of the explorer, continued: calls without records, the agreement on a view, and the
//! look of a substitute before it restores its memory.

use super::model::Sight;
use super::port::Caller;
use super::script::Stop;
use super::script::Visibility::{Private, Shared};
use crate::quantity::{CheckpointNumber, ViewNumber};
use crate::replay::decide::Reason;
use crate::replay::log::LogRecord;
use crate::replay::look::LookPort;
use crate::replay::place::CallPlace;
use crate::replay::port::{MeetingPort, UnloggedPort};
use crate::replay::rejoin::{RejoinPort, SeenViews};
use crate::store::phase::Phase;

impl UnloggedPort for Caller<'_> {
    fn keeps_records(&mut self) -> Result<bool, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].ended.is_none()))
    }

    fn end_records(&mut self, _: &Reason) -> Result<(), Stop> {
        self.access(Shared, |sight| {
            let pe = &mut sight.s.pes[sight.me];
            pe.ended = Some((pe.met + 1, pe.saw_all.unwrap_or(pe.shown)));
            Ok(())
        })
    }

    fn has_findings(&mut self) -> Result<bool, Stop> {
        self.access(Shared, |sight| Ok(sight.s.pes.iter().any(|pe| pe.ended.is_some())))
    }

    fn await_all_reached(&mut self) -> Result<ViewNumber, Stop> {
        self.access(Shared, |sight| {
            if !(0..sight.s.pes.len()).all(|pe| sight.reached(pe).is_some()) {
                return Err(Stop::Blocked);
            }
            let pe = &mut sight.s.pes[sight.me];
            pe.saw_all = Some(pe.shown);
            Ok(ViewNumber(pe.shown as u64))
        })
    }

    fn is_any_pe_away(&mut self) -> Result<bool, Stop> {
        self.access(Private, |sight| {
            let pe = &sight.s.pes[sight.me];
            Ok(pe.joined != pe.shown)
        })
    }

    fn join(&mut self, view: ViewNumber) -> Result<bool, Stop> {
        self.access(Shared, |sight| {
            let is_it = sight.s.pes[sight.me].shown as u64 == view.0;
            if is_it {
                sight.s.pes[sight.me].joined = view.0 as usize;
            } else if sight.is_no_pe_lost_since_agreed() {
                sight.s.wrong = Some("PEs agree on a view that not all see");
            }
            Ok(is_it)
        })
    }

    fn report_replay(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

impl RejoinPort for Caller<'_> {
    fn await_whole(&mut self) -> Result<(), Stop> {
        self.wait(|sight| sight.s.is_whole(sight.me))
    }

    fn seen_views(&mut self) -> Result<SeenViews, Stop> {
        self.access(Private, |sight| {
            let pe = &sight.s.pes[sight.me];
            let [joined, seen] = [pe.joined, pe.shown].map(|view| ViewNumber(view as u64));
            Ok(SeenViews { joined, seen })
        })
    }

    fn seen_before(&mut self) -> Result<SeenViews, Stop> {
        self.access(Private, |sight| {
            let pe = &sight.s.pes[sight.me];
            let entry = pe.log.get(pe.replay.at());
            Ok(SeenViews::of(entry.map_or(&[], |entry| &entry.payload)))
        })
    }

    fn all_seen(&mut self) -> Result<Vec<SeenViews>, Stop> {
        let (number, n_pes) = (self.next_meeting()? - 1, self.sight.s.pes.len());
        let seen = |pe: usize| {
            self.access(Private, |sight| {
                let found = sight.part(pe, number);
                let log = &sight.s.pes[pe].log;
                Ok(SeenViews::of(found.map_or(&[], |found| &log[found.from].payload)))
            })
        };
        (0..n_pes).map(seen).collect()
    }

    fn await_local_whole(&mut self) -> Result<Option<ViewNumber>, Stop> {
        self.access(Shared, |sight| match sight.s.is_whole(sight.me) {
            true => Ok(Some(ViewNumber(sight.s.pes[sight.me].shown as u64))),
            false => Err(Stop::Blocked),
        })
    }
}

impl Sight<'_> {
    /// Appends a record, unless this PE has ended its records.
    pub(super) fn append_if_kept(
        &mut self,
        record: LogRecord,
        payload: &[u8],
        compared: u64,
    ) -> Option<usize> {
        let is_kept = self.s.pes[self.me].ended.is_none();
        is_kept.then(|| self.append(record, payload, compared))
    }

    /// Returns true if no PE was lost since it brought its views to the last meeting. A log of a
    /// lost node may be wiped.
    fn is_no_pe_lost_since_agreed(&self) -> bool {
        let number = self.s.pes[self.me].met;
        let lives_on = |pe: usize| {
            let Some(found) = self.part(pe, number) else { return false };
            let brought = SeenViews::of(&self.s.pes[pe].log[found.from].payload);
            self.s.views[brought.seen.0 as usize][pe].number == self.s.life(pe).number
        };
        (0..self.s.pes.len()).all(lives_on)
    }
}

impl LookPort for Caller<'_> {
    /// A checkpoint is agreed once all have copied it.
    fn phase(&mut self) -> Result<Option<Phase>, Stop> {
        self.access(Private, |sight| {
            let copied = sight.s.pes[sight.me].copied;
            let all = sight.s.pes.iter().all(|pe| pe.copied >= copied);
            Ok(all.then_some(Phase::Agreed(CheckpointNumber(copied as u64))))
        })
    }

    fn holds_snapshot(&mut self, number: CheckpointNumber) -> Result<bool, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].saved.len() as u64 > number.0))
    }

    fn begins_at(&mut self, number: CheckpointNumber) -> Result<bool, Stop> {
        self.access(Private, |sight| Ok(sight.s.pes[sight.me].interval as u64 == number.0))
    }

    fn await_beginnings(&mut self, number: CheckpointNumber) -> Result<bool, Stop> {
        self.access(Shared, |sight| {
            let (s, me) = (&sight.s, sight.me);
            let begins = |pe: usize| s.has_log(me, pe).then_some(s.pes[pe].interval as u64);
            let all: Vec<Option<u64>> = (0..s.pes.len()).map(begins).collect();
            match all.iter().all(|&begins| begins == Some(number.0)) {
                true => Ok(true),
                false if all.iter().any(|&begins| begins > Some(number.0)) => Ok(false),
                false => Err(Stop::Blocked),
            }
        })
    }

    fn places(&mut self) -> Result<(CallPlace, CallPlace), Stop> {
        Ok((CallPlace::NONE, CallPlace::NONE))
    }

    fn await_quiet(&mut self) -> Result<(), Stop> {
        self.wait(|sight| {
            let (s, me) = (&sight.s, sight.me);
            let flies = |pe: usize| s.pes[pe].flight == Some(me) && s.shows(me, pe).lives();
            !(0..s.pes.len()).any(|pe| pe != me && flies(pe))
        })
    }
}
