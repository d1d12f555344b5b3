//! From a death back to the program: settle, verify, plan, rebuild, restore, re-encode, resume.
//!
//! ```text
//! settle     all living PEs meet, decide n or n+1, write the decision, finish n+1 if forward
//! verify     each PE checks every tile of its own store; findings are shown to all
//! plan       pure: what is missing, or the agreed verdict that too much is
//! rebuild    who misses chunks of its snapshot decodes them from its group's survivors
//! restore    snapshot -> live memory, allocator state
//! reencode   who misses parity computes it anew from live memory: redundancy is whole again
//! resume     control words reset; the view is joined; the program goes on
//! ```
//!
//! The order of the steps, and where the PEs meet between them, is the machine in
//! [`crate::protocol`]. A further death anywhere changes the view, and everyone begins again.
//!
//! Invariant: nothing of the store that the decision relies on is overwritten before redundancy is
//! whole.

pub mod plan;
pub(crate) mod steps;
