//! The dispatch of remote operations: one function chooses how an operation is executed.
//!
//! ```text
//! recorded   in the prelude, the results of calls are recorded or repeated    prelude
//! logged     in a job with logs, and from the log in a replay                 logged
//! direct     otherwise                                                        direct
//! ```
//!
//! Invariant: nothing else in this folder asks for the policy of the job.
//!
//! Left out: single words of a mapped PE, which need none of this as long as nothing has happened
//! (`elements.rs`); operations of the library itself, which are direct (`rma.rs`).

use super::operation::{Operation, OperationKind, PreviousValue};
use super::place::SegmentRange;
use super::{direct, logged, prelude};

/// Executes an operation; returns the value of a word that the call returns, or else zero.
#[inline(always)] // the kind is a constant of the caller
pub fn issue(operation: Operation) -> u64 {
    if operation.recorded && operation.place().world.in_prelude() {
        return issue_recorded(&{ operation }); // a copy, so that the original stays in registers
    }
    execute(operation)
}

#[inline(always)]
fn execute(operation: Operation) -> u64 {
    if operation.place().world.logs()
        && let Some(found) = logged::execute(&{ operation })
    {
        return found;
    }
    direct::execute(operation)
}

/// Executes an operation at once and records its result, or repeats the recorded result. Writes
/// have no result.
#[cold]
#[inline(never)]
fn issue_recorded(operation: &Operation) -> u64 {
    let (call, place) = (operation.call, operation.place());
    match operation.kind {
        OperationKind::Get { from, dest, by } => {
            let shape = [by.blocks, by.block_bytes, by.source_bytes, from.offset];
            let shape = prelude::with(shape.map(|number| number as u64));
            let with = prelude::with([shape, u64::from(from.pe.0)]);
            let from = SegmentRange { later: false, ..from };
            let kind = OperationKind::Get { from, dest, by };
            prelude::read(call, with, (dest, by), || {
                execute(Operation { kind, ..*operation });
            });
            0
        }
        OperationKind::Update { previous: PreviousValue::Unused, .. } => execute(*operation),
        OperationKind::Update { word, change, previous } => {
            let with = prelude::with([place.offset as u64, u64::from(place.pe.0)]);
            let kind = OperationKind::Update { word, change, previous: PreviousValue::Returned };
            let found = prelude::value(call, with, || execute(Operation { kind, ..*operation }));
            if let PreviousValue::Later(before) = previous {
                before.write_word(word.bytes(), found);
            }
            found
        }
        OperationKind::Put { .. } | OperationKind::Look { .. } => execute(*operation),
    }
}
