//! The ports of the simulator, continued: the view that PEs share, the agreement on it, and the
//! look of a substitute before it restores its memory.

use std::rc::Rc;

use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::far::LogInterval;
use raidshmem_core::replay::look::LookPort;
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::port::{MeetingPort, UnloggedPort};
use raidshmem_core::replay::rejoin::{RejoinPort, SeenViews};
use raidshmem_core::store::phase::Phase;
use raidshmem_core::view::{State as Life, View};

use super::port::{Caller, Sight, Stop};

impl Sight<'_> {
    pub fn view(&self) -> Rc<View> {
        Rc::clone(self.job.page(self.own().node))
    }
}

/// No program makes a call that is not logged, and no log gets full.
impl UnloggedPort for Caller<'_> {
    fn keeps_records(&mut self) -> Result<bool, Stop> {
        Ok(true)
    }

    fn end_records(&mut self, _: &Reason) -> Result<(), Stop> {
        Err(Stop::Blocked)
    }

    fn has_findings(&mut self) -> Result<bool, Stop> {
        Ok(false)
    }

    fn await_all_reached(&mut self) -> Result<ViewNumber, Stop> {
        self.wait(|sight| (0..sight.job.shared.len()).all(|pe| sight.is_reached(pe)))?;
        self.private(|sight| Ok(sight.view().number))
    }

    fn is_any_pe_away(&mut self) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.own().joined != sight.view().number))
    }

    fn join(&mut self, number: ViewNumber) -> Result<bool, Stop> {
        self.shared(|sight| {
            let view = sight.view();
            if view.number == number {
                sight.own_mut().join(&view);
                sight.job.connects(sight.process);
            }
            Ok(view.number == number)
        })
    }

    fn report_replay(&mut self) -> Result<(), Stop> {
        self.private(|sight| {
            if std::mem::take(&mut sight.own_mut().owes_report) {
                sight.job.report_replay(sight.process);
            }
            Ok(())
        })
    }
}

impl RejoinPort for Caller<'_> {
    fn await_whole(&mut self) -> Result<(), Stop> {
        self.wait(|sight| sight.view().whole())
    }

    fn seen_views(&mut self) -> Result<SeenViews, Stop> {
        self.private(|sight| {
            Ok(SeenViews { joined: sight.own().joined, seen: sight.view().number })
        })
    }

    fn seen_before(&mut self) -> Result<SeenViews, Stop> {
        self.private(|sight| {
            let at = sight.own().replay.at();
            let entry = sight.log().entries.get(at);
            Ok(SeenViews::of(entry.map_or(&[], |entry| &entry.payload)))
        })
    }

    fn all_seen(&mut self) -> Result<Vec<SeenViews>, Stop> {
        let number = self.next_meeting()? - 1;
        self.private(|sight| {
            let seen = |pe: usize| {
                let found = sight.part(pe, number);
                let log = sight.log_at(pe);
                SeenViews::of(found.map_or(&[], |found| &log.entries[found.from].payload))
            };
            Ok((0..sight.job.shared.len()).map(seen).collect())
        })
    }

    fn await_local_whole(&mut self) -> Result<Option<ViewNumber>, Stop> {
        self.shared(|sight| match sight.view() {
            view if !view.local => Ok(None),
            view if view.whole() => Ok(Some(view.number)),
            _ => Err(Stop::Blocked),
        })
    }
}

impl LookPort for Caller<'_> {
    fn phase(&mut self) -> Result<Option<Phase>, Stop> {
        self.private(|sight| {
            let (me, number) = (sight.me, sight.own().mapped[sight.me].0);
            Ok(sight.job.shared[me].memory(number).phase)
        })
    }

    fn holds_snapshot(&mut self, number: CheckpointNumber) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.job.shared[sight.me].saved.len() as u64 > number.0))
    }

    fn begins_at(&mut self, number: CheckpointNumber) -> Result<bool, Stop> {
        self.private(|sight| Ok(sight.log().interval == number))
    }

    fn await_beginnings(&mut self, number: CheckpointNumber) -> Result<bool, Stop> {
        self.shared(|sight| {
            sight.follows();
            let begins = |pe: Pe| {
                let log = sight.log_of(pe.at()).filter(|_| sight.has_log(pe.at()));
                log.map(|log| log.log_interval())
            };
            let all: Vec<_> = Pe::all(sight.job.shared.len()).map(begins).collect();
            let own = sight.job.shared[sight.me].log.era;
            let own = Some(LogInterval { era: own, checkpoint: number.0 });
            match all.iter().all(|&begins| begins == own) {
                true => Ok(true),
                false if all.iter().any(|&begins| begins > own) => Ok(false),
                false if !sight.view().local => Err(Stop::Cut),
                false => Err(Stop::Blocked),
            }
        })
    }

    fn places(&mut self) -> Result<(CallPlace, CallPlace), Stop> {
        Ok((CallPlace::NONE, CallPlace::NONE))
    }

    fn await_quiet(&mut self) -> Result<(), Stop> {
        self.shared(|sight| {
            let flies = |pe: usize| {
                let is_alive = sight.member(pe).state == Life::Alive;
                let log = sight.log_of(pe).filter(|_| is_alive && pe != sight.me);
                log.is_some_and(|log| log.flight == Some(sight.me))
            };
            if (0..sight.job.shared.len()).any(flies) { Err(Stop::Blocked) } else { Ok(()) }
        })
    }
}
