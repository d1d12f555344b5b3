//! Collectives: the steps of the schedules, done over groups.
//!
//! `movement` and `reduce` choose the way; `merge` combines what one PE reads of all; `relay`
//! passes bytes on between nodes, `exchange` what PEs leave each other in slots. In a job that goes
//! on with fewer all go the way of `living`, in one with logs that of `logged`.
//!
//! Invariant: a collective meets nobody before [`carry_out`] has chosen its way, whatever its size
//! is: a replay of one that met otherwise would wait for PEs that have left it.

pub mod exchange;
mod living;
mod logged;
mod merge;
pub mod movement;
pub mod reduce;
mod relay;

use super::group::Group;
use crate::pgas::Fault;

/// Carries a collective out in the one way that its job has. Logs that cannot hold it leave it to
/// `direct`.
fn carry_out<R>(
    group: &Group,
    living: impl FnOnce() -> Result<R, Fault>,
    logged: impl FnOnce() -> Option<Result<R, Fault>>,
    direct: impl FnOnce() -> Result<R, Fault>,
) -> Result<R, Fault> {
    if living::applies() {
        return living();
    }
    let logged = logged::applies(group).then(logged).flatten();
    logged.unwrap_or_else(direct)
}
