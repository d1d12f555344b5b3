//! The access of a call, in a job with logs, to the state of its PE and to that of peers.
//!
//! Implementations: mapped memory (the crate `raidshmem`) and the model checker (`explore`).
//!
//! Invariant: the accesses of a call take effect in program order.

use super::decide::Reason;
use super::log::{AtomicOutcome, Carried, Located, LogRecord, Logs, Stage};
use super::own::LoggedCall;
use crate::mutant::Mutant;
use crate::quantity::{Pe, ViewNumber};

/// The way in which calls are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogMode {
    /// Executed without a log, because the job keeps none or all PEs are about to roll back.
    Plain = 0,
    /// Logged.
    Logged,
    /// Replayed from the log of the predecessor.
    Replayed,
}

/// The access of a call to the own log, to the state that peers publish, and to the replay. Each
/// access fails if all PEs roll back.
pub trait CallPort {
    /// The error of each access: all PEs roll back.
    type Cut;
    /// The reader of all logs.
    type Logs: Logs;
    /// The log of a PE that is reached.
    type There: Copy;
    /// The process of a PE, and its location.
    type Member: PartialEq;

    /// Returns the own PE.
    fn me(&self) -> Pe;
    /// Returns the logs of all PEs; calls read only the constant parts of own records there.
    fn logs(&self) -> &Self::Logs;
    /// Returns the log mode.
    fn way(&mut self) -> LogMode;
    /// Returns true if this rule is broken on purpose.
    #[inline]
    fn breaks(&self, rule: Mutant) -> bool {
        self.logs().breaks(rule)
    }

    /// Returns true if a PE is not mapped: operations on it are messages ([`super::far`]), and
    /// `carry_out` sends them.
    #[inline]
    fn is_far(&mut self, _: Pe) -> bool {
        false
    }
    /// Sends a logged atomic operation to a far PE: its record, the value that it compares with,
    /// and true if it `fetches`. Counts it only if that PE has acknowledged it, and its result is
    /// not needed. Returns its number.
    fn send_far(&mut self, _: LogRecord, _: u64, _fetches: bool) -> Result<u64, Self::Cut> {
        Ok(0)
    }
    /// Waits for the value that the operation with this number found on a far PE.
    fn await_far(&mut self, _: Pe, _: u64) -> Result<u64, Self::Cut> {
        Ok(0)
    }

    /// Appends a record to the own log and publishes it; None if the log is full.
    fn append(&mut self, record: LogRecord, payload: &[u8]) -> Result<Option<usize>, Self::Cut>;
    /// Like `append`, for an atomic operation that compares with this: reserves space for its
    /// outcome.
    fn append_change(
        &mut self,
        record: LogRecord,
        compares_with: Option<u64>,
    ) -> Result<Option<usize>, Self::Cut>;
    /// Returns the state of an own record's operation.
    fn state(&mut self, from: usize) -> Result<Carried, Self::Cut>;
    /// Sets this state.
    fn set_state(&mut self, from: usize, state: Carried) -> Result<(), Self::Cut>;
    /// Returns the outcome of an own atomic operation.
    fn found(&mut self, from: usize) -> Result<AtomicOutcome, Self::Cut>;
    /// Marks an own atomic operation as done, with this outcome.
    fn set_found(&mut self, from: usize, found: AtomicOutcome) -> Result<(), Self::Cut>;
    /// Returns the last own record, if it holds an answer.
    fn last_answer(&mut self) -> Result<Option<Located>, Self::Cut>;
    /// Counts one more repeat of the answer in an own record.
    fn repeat(&mut self, from: usize) -> Result<(), Self::Cut>;
    /// Reads the clock: returns a later time than any that a PE has drawn.
    fn tick(&mut self) -> Result<u64, Self::Cut>;
    /// Notes that this PE may depend on everything with a smaller time.
    fn know(&mut self, time: u64) -> Result<(), Self::Cut>;

    /// Publishes that this PE may be about to write to another one.
    fn fly(&mut self, to: Pe) -> Result<(), Self::Cut>;
    /// Publishes the end of such writes, all of which are visible before that.
    fn land(&mut self) -> Result<(), Self::Cut>;
    /// Orders what this PE has published before its next look.
    fn order(&mut self) -> Result<(), Self::Cut>;
    /// Returns the log of a PE, if its process lives and has caught up.
    fn reached(&mut self, to: Pe) -> Result<Option<Self::There>, Self::Cut>;
    /// Returns true if that PE has taken over the own record at `from`.
    fn has_taken(&mut self, there: Self::There, from: usize) -> Result<bool, Self::Cut>;
    /// Fails if all PEs roll back. Adopts a view with local rollback.
    fn adopt_view(&mut self) -> Result<(), Self::Cut>;
    /// Handles an operation on a lost PE that has no record.
    fn has_no_record(&mut self) -> Self::Cut;
    /// Waits until no node lets its PEs reach the memory of the dead PE.
    fn await_shown(&mut self, to: Pe) -> Result<(), Self::Cut>;
    /// Returns the stage of a PE's next process, which may publish it before the view names the
    /// process; None if it has published none yet.
    fn stage(&mut self, to: Pe) -> Result<Option<Stage>, Self::Cut>;
    /// Waits while a PE reads the logs for the last time.
    fn await_drained(&mut self, to: Pe) -> Result<(), Self::Cut>;
    /// Waits until a PE is reached, and returns its process.
    fn await_reached(&mut self, to: Pe) -> Result<Self::Member, Self::Cut>;
    /// Returns true if the PE is still reached, with the same process.
    fn is_still(&mut self, to: Pe, member: &Self::Member) -> Result<bool, Self::Cut>;
    /// Returns true if the mapped memory of a PE was lost with its node and may be wiped.
    fn is_wiped(&mut self, pe: Pe) -> Result<bool, Self::Cut>;
    /// Returns the value that a PE found when it took over the own operation recorded at `from`.
    fn taken_by(&mut self, pe: Pe, from: usize) -> Result<Option<u64>, Self::Cut>;
    /// Wakes a PE that sleeps in a wait for a put.
    fn ring(&mut self, pe: Pe) -> Result<(), Self::Cut>;
    /// Requests a global rollback, and waits until it begins.
    fn roll_all_back(&mut self, why: Reason) -> Self::Cut;

    /// Returns the next own record in the replay, if `is_it` accepts it for the call.
    fn next(
        &mut self,
        is_it: impl FnOnce(&Self::Logs, &Located) -> bool,
    ) -> Result<Option<LoggedCall>, Self::Cut>;
    /// Returns true if the predecessor made no further call.
    fn is_over(&mut self) -> Result<bool, Self::Cut>;
    /// Waits until the records are here that other PEs have to send again and that the predecessor
    /// took before `until`. Fails if they cannot come: then all PEs roll back.
    #[inline]
    fn await_records(&mut self, _until: u64) -> Result<(), Self::Cut> {
        Ok(())
    }
    /// Applies the operations of other PEs before `until`, whose records are here.
    fn apply(&mut self, until: u64) -> Result<(), Self::Cut>;
    /// Applies all operations of other PEs, executed or only logged. Returns false if one is in
    /// doubt.
    fn apply_all(&mut self) -> Result<bool, Self::Cut>;
    /// Returns true if the value of every own word is known.
    fn is_certain(&mut self) -> Result<bool, Self::Cut>;
    /// Applies the own operation of a record, which found `old`, to the own memory.
    fn change_own(&mut self, from: usize, old: u64) -> Result<(), Self::Cut>;
    /// Notes the assignment of own bytes by the put of a record.
    fn assigns_own(&mut self, from: usize) -> Result<(), Self::Cut>;
    /// Returns true if other PEs change an own word atomically, and may have changed it since.
    fn may_have_changed(&mut self, at: usize) -> Result<bool, Self::Cut>;
    /// Returns the value of the own word of a record; `otherwise` if it is not a word.
    fn own_word(&mut self, record: &LogRecord, otherwise: u64) -> Result<u64, Self::Cut>;

    /// Begins the handover.
    fn begin_handover(&mut self) -> Result<(), Self::Cut>;
    /// Publishes the own stage.
    fn show(&mut self, stage: Stage) -> Result<(), Self::Cut>;
    /// Orders the accesses of all PEs: afterwards each peer either sees what this PE published
    /// before, or this PE sees what the peer published. Returns false if that is not possible.
    fn order_others(&mut self) -> Result<bool, Self::Cut>;
    /// Publishes the cursor up to which the log of each PE is taken over.
    fn publish_taken(&mut self) -> Result<(), Self::Cut>;
    /// Resumes the logging of calls.
    fn log_again(&mut self) -> Result<(), Self::Cut>;
    /// Wakes the PEs that wait for this one, and reports that they reach it.
    fn wake_others(&mut self) -> Result<(), Self::Cut>;
    /// Fails if the log of a PE holds a reason for a global rollback.
    fn check_findings(&mut self) -> Result<(), Self::Cut>;
}

/// The additional access that calls without records need.
pub trait UnloggedPort: CallPort {
    /// Returns true until this PE has ended its records in this interval.
    fn keeps_records(&mut self) -> Result<bool, Self::Cut>;
    /// Ends the records, and publishes the reason against a local rollback.
    fn end_records(&mut self, why: &Reason) -> Result<(), Self::Cut>;
    /// Returns true if the log of a PE holds a reason for a global rollback.
    fn has_findings(&mut self) -> Result<bool, Self::Cut>;
    /// Waits for a view in which all PEs are reached. Returns its number.
    fn await_all_reached(&mut self) -> Result<ViewNumber, Self::Cut>;
    /// Returns true if this PE has adopted a view that it has not joined.
    fn is_any_pe_away(&mut self) -> Result<bool, Self::Cut>;
    /// Joins the published view. Returns false if it has another number.
    fn join(&mut self, view: ViewNumber) -> Result<bool, Self::Cut>;
    /// Reports the end of this PE's replay, if there was one, to the launcher.
    fn report_replay(&mut self) -> Result<(), Self::Cut>;
}

/// The additional access that meetings need. That of the agreement on a view is in
/// [`super::rejoin`], that of a substitute that begins in [`super::look`].
pub trait MeetingPort: UnloggedPort {
    /// Returns the number of the next meeting of this PE.
    fn next_meeting(&mut self) -> Result<u64, Self::Cut>;
    /// Posts the arrival of this PE at a meeting, whose record begins at `from`.
    fn come(&mut self, number: u64, from: Option<usize>) -> Result<(), Self::Cut>;
    /// Notes that the predecessor had arrived at this meeting, whose record begins at `from`.
    fn has_arrived(&mut self, number: u64, from: usize) -> Result<(), Self::Cut>;
    /// Waits until all PEs have arrived.
    fn await_all(&mut self, number: u64) -> Result<(), Self::Cut>;
    /// Returns the published view.
    fn view(&mut self) -> Result<ViewNumber, Self::Cut>;
    /// Returns true if all logs are present: one that was lost with a node may be wiped by now.
    fn has_all_logs(&mut self) -> Result<bool, Self::Cut>;
    /// Waits until all logs are present.
    fn await_logs(&mut self) -> Result<(), Self::Cut>;
    /// Locates all contributions, and returns their time by [`super::meeting::together`].
    fn gather(&mut self, number: u64) -> Result<Option<u64>, Self::Cut>;
    /// Notes that the contributions gathered last are those of this meeting.
    fn keep_parts(&mut self) -> Result<(), Self::Cut>;
    /// Returns true if the log of a PE begins at a later checkpoint than the own one.
    fn is_any_log_later(&mut self) -> Result<bool, Self::Cut>;
}
