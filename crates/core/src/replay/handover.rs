//! From "others only log what is for the substitute" to "the substitute is reached".
//!
//! Who shows something and then looks sees what others have shown that do not see it:
//!
//! ```text
//! an origin, in each call    its record and its flight    the view, and the stage of the target
//! a substitute, at first     the loss, on all nodes       flights to what the dead left
//! a substitute, at last      that it drains               the records that are left to it
//! ```
//!
//! So either the substitute sees a record, or its origin sees that it drains, and waits: no
//! operation is lost. How far it has taken over the log of each PE it says before it is reached: no
//! operation is done twice. That needs a full fence between the two steps on both sides.
//!
//! Left out: who waits until when before a substitute begins (`recovery/local.rs`).

use super::decide::Reason;
use super::log::Stage;
use super::port::{CallPort, LogMode};
use crate::mutant::Mutant;

/// At the end of the log: takes over what others left in theirs, and is reached from then on. If
/// that end is a meeting it does so before it waits there: others may need it before they come.
///
/// # Errors
/// All go back.
pub fn catch_up<P: CallPort>(port: &mut P) -> Result<(), P::Cut> {
    if port.way() != LogMode::Replayed || !port.is_over()? {
        return Ok(());
    }
    port.begin_hand_over()?;
    port.tick()?; // a later time than any of the predecessor
    let looks_first = port.breaks(Mutant::NoSecondLook) && port.apply_all()?;
    port.show(Stage::Draining)?;
    // Who has not seen that, and goes on as if this PE were away, has its record seen here.
    let known = looks_first || port.order_others()? && port.apply_all()?;
    port.say_taken()?;
    port.log_again()?;
    port.show(Stage::Direct)?;
    port.wake_others()?;
    if !known {
        return Err(port.take_all_back(Reason::InDoubt));
    }
    if !port.is_certain()? {
        return Err(port.take_all_back(Reason::Uncertain));
    }
    port.look_at_findings()
}
