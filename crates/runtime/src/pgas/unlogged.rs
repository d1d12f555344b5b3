//! Calls without records in a job with logs (`core/replay/unlogged.rs`): routines that are not
//! logged, and all calls once the log is full. Their port in mapped memory.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering;

use raidshmem_core::quantity::ViewNumber;
use raidshmem_core::replay::decide::Reason;
use raidshmem_core::replay::port::{LogMode, UnloggedPort};
use raidshmem_core::replay::unlogged;

use super::caller::{Caller, Cut};
use super::local::CallLog;

impl CallLog<'_> {
    /// Handles a call that is not logged, which rules out local rollback until the next checkpoint.
    #[cold]
    pub fn unlogged(self, routine: &'static str) {
        let is_known = self.world.local.cursor.is_bare() && !self.world.call_log().is_any_pe_away();
        let why = || Reason::NoRule { routine: routine.to_owned() };
        match self.world.local.way() {
            LogMode::Plain => {}
            _ if is_known || self.world.all_roll_back() => {}
            LogMode::Replayed => self.roll_all_back(why()),
            LogMode::Logged => self.rule_out(&why()),
        }
    }

    /// Ends the records of this interval, once all PEs are reached: a later loss rolls back all.
    pub(super) fn rule_out(self, why: &Reason) {
        if self.world.local.way() != LogMode::Plain {
            let mut caller = Caller::new(self.world, "a local rollback");
            unlogged::end_records(&mut caller, why).unwrap_or(());
        }
    }
}

impl UnloggedPort for Caller<'_> {
    fn keeps_records(&mut self) -> Result<bool, Cut> {
        Ok(!self.world.local.cursor.is_bare())
    }

    fn end_records(&mut self, why: &Reason) -> Result<(), Cut> {
        self.world.log_writer().stop_recording(why);
        self.show_words()
    }

    fn has_findings(&mut self) -> Result<bool, Cut> {
        Ok(self.world.log_meetings().findings().is_some())
    }

    fn await_all_reached(&mut self) -> Result<ViewNumber, Cut> {
        let found = Cell::new(ViewNumber(0));
        self.wait(|| {
            found.set(self.world.members.view_number());
            !self.world.all_roll_back()
                && self.others().all(|pe| self.world.call_log().reached(pe).is_some())
                && self.world.members.view_number() == found.get()
        })?;
        Ok(found.get())
    }

    fn is_any_pe_away(&mut self) -> Result<bool, Cut> {
        Ok(self.world.call_log().is_any_pe_away())
    }

    fn join(&mut self, number: ViewNumber) -> Result<bool, Cut> {
        let view = self.world.members.view();
        if view.number != number {
            return Ok(false);
        }
        self.world.tree_meetings().reset_meetings();
        self.world.join(&view);
        self.world.members.work_in(number);
        self.world.local.rejoined.store(true, Ordering::Relaxed);
        self.renew_log();
        Ok(true)
    }

    fn report_replay(&mut self) -> Result<(), Cut> {
        self.world.log_meetings().report_replay();
        Ok(())
    }
}
