//! Checkpoints in parts: the steps of a PE's background, while its program computes.

use super::model::Model;
use super::state::{JobState, PeState};
use crate::protocol::{At, Call};

impl PeState {
    /// Returns the call that the PE is in, if checkpoints are made in `parts` or not.
    pub fn call(&self, parts: bool) -> Call {
        if parts && self.call == Call::Checkpoint { Call::Copy } else { self.call }
    }
}

impl Model {
    /// Returns the place of a checkpoint's snapshot.
    pub fn snapshot(&self, number: u8) -> usize {
        if self.parts { usize::from(number) % 2 } else { 0 }
    }

    /// Makes the steps of the background of PE `p`, whose program computes meanwhile; its next call
    /// waits for their end.
    pub fn background(
        &self,
        state: &JobState,
        p: usize,
        out: &mut Vec<JobState>,
    ) -> Result<(), String> {
        let pe = &state.pes[p];
        let newest =
            if self.lazy { (pe.joined + 1).min(state.current).max(pe.shown) } else { pe.shown };
        for shown in pe.shown..=newest {
            let mut next = *state;
            next.pes[p].shown = shown;
            let before = next;
            match self.act_behind(&mut next, p)? {
                Some(At::Interrupted) => {
                    (next.pes[p].behind, next.pes[p].live) = (None, None);
                    out.push(next);
                }
                Some(At::Saved) => {
                    next.pes[p].behind = None;
                    self.finish(&mut next.pes[p]);
                    out.push(next);
                }
                _ if next != before => out.push(next),
                _ => {}
            }
        }
        Ok(())
    }
}
