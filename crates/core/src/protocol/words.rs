//! The states and outcomes of the protocol in plain English, for the record of a PE's actions.
//!
//! Left out: the meaning of the end of a call for the program, which the launcher reports.

use std::fmt;

use super::{At, Outcome};

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            At::Enter => "entry",
            At::Follow => "catching up with the other PEs",
            At::Intend => "quiescing",
            At::BarrierQ => "barrier Q",
            At::Agree => "comparing the intents",
            At::BarrierRefuse => "barrier before a refusal",
            At::Compare => "finding what changed",
            At::BarrierC => "barrier C",
            At::Encode => "encoding",
            At::Publish => "publishing the parity",
            At::BarrierA => "barrier A",
            At::Copy => "copying the snapshot",
            At::BarrierB => "barrier B",
            At::CopyAhead => "copies ahead of the parity",
            At::BarrierCopied => "waits for all copies",
            At::Whole => "waiting for substitutes",
            At::MeetSettling => "meeting of all that live",
            At::Decide => "deciding on the checkpoint",
            At::MeetDecided => "meeting after the decision",
            At::Finish => "carrying out the decision",
            At::MeetSettled => "meeting at one checkpoint",
            At::Verify => "verifying what is left",
            At::MeetVerified => "meeting after the verification",
            At::Judge => "planning the rebuild",
            At::MeetJudged => "meeting after the plan",
            At::Verdict => "checking the verdict",
            At::Rebuild => "rebuilding",
            At::MeetRebuilt => "meeting after the rebuild",
            At::Restore => "restoring memory",
            At::MeetRestored => "meeting after the restoration",
            At::Reencode => "computing lost parity",
            At::MeetEncoded => "meeting after the parity",
            At::Reset => "resetting control words",
            At::MeetReset => "meeting after the reset",
            At::Join => "joining the view",
            At::Saved => "saved",
            At::Copied => "copied",
            At::Interrupted => "interrupted",
            At::Passed => "passed without a checkpoint",
            At::Refused => "refused",
            At::Reported => "loss reported",
            At::Resumed => "resumed",
            At::Unrecoverable => "unrecoverable",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Done => "done",
            Outcome::Changed => "broken off by a loss",
            Outcome::Refused => "refused",
            Outcome::Lost => "too much is lost",
            Outcome::Behind => "behind the other PEs",
        })
    }
}
