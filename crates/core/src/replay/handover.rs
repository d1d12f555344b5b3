//! The handover: origins stop logging operations for a substitute, and reach it directly.
//!
//! Each side publishes its own state, executes a full fence, and then reads the state of the other
//! side. Of two concurrent PEs, at least one therefore sees the other:
//!
//! ```text
//!                              publishes                   reads
//! an origin, in each call      its record and its flight   the view, and the target's stage
//! a substitute, at the start   the loss, on all nodes      flights to the memory of the dead PE
//! a substitute, at the end     the stage `Draining`        the records left for it
//! ```
//!
//! So either the substitute sees a record, or the origin sees the stage and waits: no operation is
//! lost. Before it becomes reachable, the substitute publishes its position in the log of each PE:
//! no operation is executed twice.
//!
//! Left out: the waits before a substitute begins (`recovery/local.rs`).

use super::decide::Reason;
use super::log::Stage;
use super::port::{CallPort, LogMode};
use crate::mutant::Mutant;

/// At the end of the own log, takes over the operations left in other logs and becomes reachable.
/// If the log ends with a meeting, this happens before the wait: peers may need this PE to get
/// there.
///
/// # Errors
/// Fails if all PEs roll back.
pub fn catch_up<P: CallPort>(port: &mut P) -> Result<(), P::Cut> {
    if port.way() != LogMode::Replayed || !port.is_over()? {
        return Ok(());
    }
    port.await_records(u64::MAX)?;
    port.begin_handover()?;
    port.tick()?; // later than any time of the predecessor
    let looks_first = port.breaks(Mutant::NoSecondLook) && port.apply_all()?;
    port.show(Stage::Draining)?;
    // An origin that has not seen this stage leaves its operation in its log: it is read here.
    let known = looks_first || port.order_others()? && port.apply_all()?;
    // A PE ends its records only when this PE is reached, so a reason is older than its loss.
    if !port.breaks(Mutant::ReasonsReadLate) {
        port.check_findings()?;
    }
    port.publish_taken()?;
    port.log_again()?;
    port.show(Stage::Direct)?;
    port.wake_others()?;
    if !known {
        return Err(port.roll_all_back(Reason::InDoubt));
    }
    if !port.is_certain()? {
        return Err(port.roll_all_back(Reason::Uncertain));
    }
    if port.breaks(Mutant::ReasonsReadLate) { port.check_findings() } else { Ok(()) }
}
