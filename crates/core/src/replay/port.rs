//! What a call of a job with logs needs of its PE: what it shows, what it sees, and where it waits.
//!
//! Ports are those of mapped memory (the crate `raidshmem`) and of the model checker (`explore`).
//!
//! Invariant: an access that comes after another one in a call is carried out after it.

use super::decide::Reason;
use super::log::{AtomicOutcome, Carried, Located, LogRecord, Logs, Stage};
use super::own::LoggedCall;
use crate::mutant::Mutant;
use crate::quantity::{Pe, ViewNumber};

/// What becomes of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogMode {
    /// They are carried out without a log: there is none, or this PE is to go back with all.
    Plain = 0,
    /// They are logged.
    Logged,
    /// They come from the log of the predecessor.
    Replayed,
}

/// What a call needs of its PE: the own log, what others show, and how far a replay is. The error
/// of each access: all go back.
pub trait CallPort {
    /// All go back.
    type Cut;
    /// Where the logs of all are read.
    type Logs: Logs;
    /// The log of a PE that is reached.
    type There: Copy;
    /// Who a PE is, and where.
    type Member: PartialEq;

    /// The own PE.
    fn me(&self) -> Pe;
    /// The logs of all: used for what does not change of the own records.
    fn logs(&self) -> &Self::Logs;
    /// What becomes of calls.
    fn way(&mut self) -> LogMode;
    /// True if this rule is broken on purpose.
    #[inline]
    fn breaks(&self, rule: Mutant) -> bool {
        self.logs().breaks(rule)
    }

    /// Appends a record to the own log, and shows it; None if there is no room.
    fn append(&mut self, record: LogRecord, payload: &[u8]) -> Result<Option<usize>, Self::Cut>;
    /// The same for an atomic operation, which compares with this: room for what it finds.
    fn append_change(
        &mut self,
        record: LogRecord,
        compares_with: Option<u64>,
    ) -> Result<Option<usize>, Self::Cut>;
    /// How far the operation of an own record is.
    fn state(&mut self, from: usize) -> Result<Carried, Self::Cut>;
    /// It is so far.
    fn set_state(&mut self, from: usize, state: Carried) -> Result<(), Self::Cut>;
    /// What it found.
    fn found(&mut self, from: usize) -> Result<AtomicOutcome, Self::Cut>;
    /// It is done, and found this.
    fn set_found(&mut self, from: usize, found: AtomicOutcome) -> Result<(), Self::Cut>;
    /// The last own record, if that is of an answer.
    fn last_answer(&mut self) -> Result<Option<Located>, Self::Cut>;
    /// The answer of an own record was given once more.
    fn repeat(&mut self, from: usize) -> Result<(), Self::Cut>;
    /// A time of the clock, later than any that anybody has drawn.
    fn tick(&mut self) -> Result<u64, Self::Cut>;
    /// This PE may know everything with a smaller time.
    fn know(&mut self, time: u64) -> Result<(), Self::Cut>;

    /// Shows that this PE may be about to write to another one.
    fn fly(&mut self, to: Pe) -> Result<(), Self::Cut>;
    /// Shows that it is not: what it wrote shows before that.
    fn land(&mut self) -> Result<(), Self::Cut>;
    /// What this PE has shown shows before its next look.
    fn order(&mut self) -> Result<(), Self::Cut>;
    /// The log of a PE, if its process lives and has caught up.
    fn reached(&mut self, to: Pe) -> Result<Option<Self::There>, Self::Cut>;
    /// True if that PE has taken over the own record at `from`.
    fn has_taken(&mut self, there: Self::There, from: usize) -> Result<bool, Self::Cut>;
    /// Passes if not all go back. Adopts a view in which the lost go back alone.
    fn goes_on(&mut self) -> Result<(), Self::Cut>;
    /// This PE has no record of an operation on a PE that is away.
    fn has_no_record(&mut self) -> Self::Cut;
    /// Waits until no node lets its PEs reach the memory of the dead.
    fn await_shown(&mut self, to: Pe) -> Result<(), Self::Cut>;
    /// The stage of the process that is to be reached, which may come before the view that shows
    /// it; None: it shows none yet.
    fn stage(&mut self, to: Pe) -> Result<Option<Stage>, Self::Cut>;
    /// Waits while a PE looks at the logs for the last time.
    fn await_drained(&mut self, to: Pe) -> Result<(), Self::Cut>;
    /// Waits until a PE is reached; who that is.
    fn await_reached(&mut self, to: Pe) -> Result<Self::Member, Self::Cut>;
    /// True if it is still reached, and the same.
    fn is_still(&mut self, to: Pe, member: &Self::Member) -> Result<bool, Self::Cut>;
    /// True if the memory of a PE that is mapped here is lost with its node: it may be wiped.
    fn is_wiped(&mut self, pe: Pe) -> Result<bool, Self::Cut>;
    /// What a PE found when it took over the own operation whose record begins at `from`.
    fn taken_by(&mut self, pe: Pe, from: usize) -> Result<Option<u64>, Self::Cut>;
    /// Wakes a PE that sleeps until a put brings what it waits for.
    fn ring(&mut self, pe: Pe) -> Result<(), Self::Cut>;
    /// Says that all go back, and waits until they do.
    fn take_all_back(&mut self, why: Reason) -> Self::Cut;

    /// The next own record in the replay, if `is_it` says that the call is of that.
    fn next(
        &mut self,
        is_it: impl FnOnce(&Self::Logs, &Located) -> bool,
    ) -> Result<Option<LoggedCall>, Self::Cut>;
    /// True if the predecessor made no other call.
    fn is_over(&mut self) -> Result<bool, Self::Cut>;
    /// Applies what others did before `until`.
    fn apply(&mut self, until: u64) -> Result<(), Self::Cut>;
    /// Applies all that others did, or left to this PE. False if it is not known what that was.
    fn apply_all(&mut self) -> Result<bool, Self::Cut>;
    /// True if it is known of every own word what it holds.
    fn is_certain(&mut self) -> Result<bool, Self::Cut>;
    /// The own operation of a record, which found `old`, is applied to the own memory.
    fn change_own(&mut self, from: usize, old: u64) -> Result<(), Self::Cut>;
    /// Own bytes are put, as a record says.
    fn assigns_own(&mut self, from: usize) -> Result<(), Self::Cut>;
    /// True if others change an own word atomically, and may have gone on meanwhile.
    fn others_go_on(&mut self, at: usize) -> Result<bool, Self::Cut>;
    /// What lies in the own word of a record; `otherwise` if that is none.
    fn own_word(&mut self, record: &LogRecord, otherwise: u64) -> Result<u64, Self::Cut>;

    /// Begins the hand-over; an error if all go back.
    fn begin_hand_over(&mut self) -> Result<(), Self::Cut>;
    /// Shows the own stage.
    fn show(&mut self, stage: Stage) -> Result<(), Self::Cut>;
    /// From here on this PE sees what others have shown, but for those that see in their look what
    /// was shown before this. False if that cannot be.
    fn order_others(&mut self) -> Result<bool, Self::Cut>;
    /// Says how far the log of each PE is taken over.
    fn say_taken(&mut self) -> Result<(), Self::Cut>;
    /// Calls are logged again.
    fn log_again(&mut self) -> Result<(), Self::Cut>;
    /// Wakes who waits for this PE.
    fn wake_others(&mut self) -> Result<(), Self::Cut>;
    /// An error if the log of a PE says why all have to go back.
    fn look_at_findings(&mut self) -> Result<(), Self::Cut>;
}

/// What meetings need besides.
pub trait MeetingPort: CallPort {
    /// The number of the next meeting of this PE.
    fn next_meeting(&mut self) -> Result<u64, Self::Cut>;
    /// This PE has come to a meeting, of which the record begins at `from`: says so.
    fn come(&mut self, number: u64, from: Option<usize>) -> Result<(), Self::Cut>;
    /// The predecessor had come to that meeting.
    fn has_come(&mut self, number: u64) -> Result<(), Self::Cut>;
    /// Waits until all have come.
    fn await_all(&mut self, number: u64) -> Result<(), Self::Cut>;
    /// The view that is shown.
    fn view(&mut self) -> Result<ViewNumber, Self::Cut>;
    /// True if the logs of all are there: one that was lost with a node may be wiped by now.
    fn has_all_logs(&mut self) -> Result<bool, Self::Cut>;
    /// Waits until they are.
    fn await_logs(&mut self) -> Result<(), Self::Cut>;
    /// Reads where all left what they brought; the time of that by [`super::meeting::together`].
    fn gather(&mut self, number: u64) -> Result<Option<u64>, Self::Cut>;
}
