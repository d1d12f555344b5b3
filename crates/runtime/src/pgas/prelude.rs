//! The prelude of a program: its calls before the first checkpoint call, which a substitute repeats
//! when it begins in `main`.
//!
//! ```text
//! an original     records the results of calls, and sends the record to the launcher in its first
//!                 checkpoint call, which begins when the records of all PEs have arrived
//! a substitute    has the record of the first process with its PE number: its calls return those
//!                 results until its first checkpoint call, without waiting or writing to other PEs
//! ```
//!
//! So a program may keep such results in its own variables, which no checkpoint holds. A call with
//! an unknown result ends the job with an error that names it. A loss before the launcher has all
//! records counts as a loss before the first checkpoint.
//!
//! Left out: which calls have results, and their encoding (`openshmem/memory/prelude.rs`); jobs
//! that begin from disk, where results are zeroes.

#![forbid(unsafe_code)]

use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::message::PeMessage;
use raidshmem_core::prelude::{Known, limit};
use raidshmem_sys::lock;

use super::World;
use super::local::Call;
use super::world::prelude::PreludeMode;

/// The call that records the PEs that share memory when the program begins.
const SHARING: Call = Call { name: "SHMEM_TEAM_SHARED", with: 0 };

/// The calls of the program before its first checkpoint call.
#[derive(Clone, Copy)]
pub struct FirstCalls<'a> {
    pub(super) world: &'a World,
}

impl World {
    /// Returns the calls of the program before its first checkpoint call.
    #[inline]
    pub fn first_calls(&self) -> FirstCalls<'_> {
        FirstCalls { world: self }
    }

    /// Returns true while results of calls are recorded or replayed.
    #[inline]
    pub fn in_prelude(&self) -> bool {
        self.prelude.is_open()
    }
}

impl FirstCalls<'_> {
    /// Returns the result of a call: that of `act`, which `show` encodes for the record, or in a
    /// substitute that of its predecessor, which `give` decodes.
    pub fn result_of<R>(
        self,
        call: Call,
        act: impl FnOnce() -> R,
        show: impl FnOnce(&R) -> Vec<u8>,
        give: impl FnOnce(Vec<u8>) -> R,
    ) -> R {
        if self.world.prelude.is_given() {
            return give(self.result_before(&call));
        }
        let result = act();
        if let PreludeMode::Noted(notes) = &mut *lock(&self.world.prelude.mode) {
            notes.note(call.digest(), &show(&result));
            if notes.is_full() {
                self.world.prelude.close();
            }
        }
        result
    }

    /// Records the PEs of `SHMEM_TEAM_SHARED` as the program begins, for a substitute that may run
    /// on another node.
    pub(super) fn begin_prelude(self) {
        if let PreludeMode::Noted(notes) = &mut *lock(&self.world.prelude.mode) {
            let (first, stride, size) = self.world.topology().sharing();
            let words = [first as u64, stride as u64, size as u64];
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            notes.note(SHARING.digest(), &bytes);
        }
    }

    /// Returns the PEs that shared memory with the first process of this number.
    pub(super) fn sharing_before(self) -> Option<(isize, isize, usize)> {
        let PreludeMode::Given(results) = &*lock(&self.world.prelude.mode) else { return None };
        let (words, _) = results.first(SHARING.digest())?.as_chunks();
        let [first, stride, size] = *words.first_chunk::<3>()?;
        let [first, stride] = [first, stride].map(isize::from_le_bytes);
        Some((first, stride, usize::from_le_bytes(size)))
    }

    fn result_before(self, call: &Call) -> Vec<u8> {
        let known = match &mut *lock(&self.world.prelude.mode) {
            PreludeMode::Given(results) => results.next(call.name, call.digest()),
            _ => Known::NoSuchCall,
        };
        let most = limit(self.world.n_pes());
        match known {
            Known::Result(result) => result,
            Known::NoRoom => self.end_for(
                call.name,
                &format!("its result is no longer known: at most {most} bytes of results are kept"),
            ),
            Known::NoSuchCall => self.end_for(
                call.name,
                "its result is unknown: the lost PE did not make this call, or made it less \
                 often",
            ),
        }
    }

    #[cold]
    fn end_for(self, call: &str, why: &str) -> ! {
        let words = format!(
            "unrecoverable: PE {}: {call} in a substitute before its first checkpoint call: {why}",
            self.world.me()
        );
        self.world.members.end_job(UNRECOVERABLE, Some(words))
    }

    /// Ends the prelude when the program reaches its first checkpoint call.
    pub(crate) fn end_prelude(self) {
        self.world.prelude.close();
        let mode = std::mem::replace(&mut *lock(&self.world.prelude.mode), PreludeMode::Closed);
        match mode {
            PreludeMode::Closed => {}
            PreludeMode::Noted(notes) => self.hand_over(notes.into_record()),
            PreludeMode::Given(results) => {
                let why = "the lost PE made it more often, so the right results are unknown";
                if let Some(call) = results.in_doubt() {
                    self.end_for(call, why);
                }
            }
        }
    }

    /// Sends the record, and waits until the launcher has that of each PE or a PE was lost.
    fn hand_over(self, record: Vec<u8>) {
        let Some(channel) = self.world.members.channel() else { return };
        // If the agent is gone, this process dies with it.
        let _ = channel.send(&PeMessage::PreludeOver { record }, &[]);
        let kept = || self.world.members.has_preludes() || self.world.members.faulted();
        self.world.wait_raw(|| self.world.waiting_for_all("shmem_checkpoint_all"), kept);
    }
}
