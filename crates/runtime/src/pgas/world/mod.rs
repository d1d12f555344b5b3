//! A process of the job: its parts, and the functions that need several of them.
//!
//! Each part is a value of its own, with the functions that need no other part:
//!
//! ```text
//! members    published and adopted views, the agent          [`self::members`]
//! segments   the mapped segments of PEs                      [`self::segments`]
//! memory     allocations, and coverage of a checkpoint       [`self::memory`]
//! comm       the engine, pending transfers, barriers         [`self::comm`]
//! store      the state of a PE for checkpoints               [`self::store`]
//! ```
//!
//! Functions that need several parts belong to a task, which borrows the process:
//!
//! ```text
//! loss_response             the consequences of a loss for calls       `policy.rs`
//! survivors                 views and agreements in shrink mode        `fewer.rs`
//! transfers                 operations on PEs that are not mapped      `remote.rs`
//! barriers, tree_meetings   meetings of the program, of the protocol   `barrier.rs`, `meeting.rs`
//! call_log, log_writer      logged calls, and their records            `local.rs`, `records.rs`
//! log_meetings              meetings through logs, and replays         `gathering.rs`
//! call_sites                published checkpoint calls                 `calls.rs`
//! save_decisions            the choice of calls that save              `timing.rs`
//! first_calls, inheritance  what a substitute repeats, and takes over  `prelude.rs`, `inherit.rs`
//! completion, blocking      the end of this PE; its waiting threads    `finish.rs`, `wait.rs`
//! grouping, survival, topology                                         here
//! ```

pub mod advised;
mod background;
pub mod comm;
pub mod far;
pub mod fewer;
pub mod finish;
pub mod groups;
pub mod guarded;
pub mod homes;
pub mod local;
pub mod meetings;
pub mod members;
pub mod memory;
pub mod nodes;
pub mod pace;
pub mod policy;
pub mod prelude;
pub mod recovery_state;
pub mod regions;
pub mod remote;
pub mod segments;
pub mod sites;
pub mod store;
pub mod store_lock;
pub mod stream;
mod survival;
pub mod timing;
mod topology;
pub mod watch;

use std::sync::Mutex;

use raidshmem_core::message::{Flaw, Job, ToPe};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::settings::Settings;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_core::view::{State, View};
use raidshmem_segment::waits::Waiting;

use self::comm::Communication;
use self::fewer::Fewer;
use self::finish::Finish;
use self::local::Local;
use self::meetings::Meetings;
use self::members::Membership;
use self::memory::PeMemory;
use self::nodes::Nodes;
use self::pace::Pace;
use self::policy::LossPolicy;
use self::prelude::Prelude;
use self::segments::Segments;
use self::sites::Sites;
use self::store::Store;
use self::timing::Timing;
use self::watch::TouchedPes;

/// The state of a process in its job.
#[derive(Debug)]
pub struct World {
    pub(in crate::pgas) job: Job,
    pub(in crate::pgas) settings: Settings,
    /// This PE as a member of the job.
    pub members: Membership,
    /// The mapped memory of PEs.
    pub segments: &'static Segments,
    /// The allocations in this PE's own segment, and their coverage.
    pub memory: PeMemory,
    /// The paths to the other PEs.
    pub comm: Communication,
    /// The checkpoint state of this PE.
    pub(crate) store: Store,
    /// The PEs whose memory the program has used.
    pub reached: TouchedPes,
    pub(in crate::pgas) pace: Pace,
    pub(in crate::pgas) thread_level: i32,
    pub(in crate::pgas) finish: Finish,
    /// Logs for local rollback.
    pub local: Local,
    /// PEs lost for good.
    pub fewer: Fewer,
    /// The consequences of a loss.
    pub(super) policy: LossPolicy,
    /// The results of the program's first calls.
    pub prelude: Prelude,
    pub(crate) sites: Sites,
    /// The meetings of the protocol.
    pub(in crate::pgas) meetings: Mutex<Meetings>,
    /// The schedule of checkpoints.
    pub(crate) timing: Timing,
}

impl World {
    /// Returns this PE's number.
    #[inline]
    pub fn me(&self) -> Pe {
        self.segments.me()
    }

    /// Returns the number of PEs.
    #[inline]
    pub fn n_pes(&self) -> usize {
        self.segments.n_pes()
    }

    /// Returns the job's random number.
    pub fn job(&self) -> u64 {
        self.job.id
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns true if argument checks are on (`SHMEM_CHECK`).
    #[inline]
    pub fn checks(&self) -> bool {
        self.settings.check
    }

    // ---- views -------------------------------------------------------------------------------

    /// Completes a recovery: makes this PE a member of `view`.
    pub(crate) fn join(&self, view: &View) {
        self.members.join(view);
        self.grouping().note_places(view);
        let homes = self.comm.homes();
        let mut living = Pe::all(self.n_pes()).filter(|pe| view.pes[pe.at()].state == State::Alive);
        let first = living.next().map(|pe| homes.node_in(view, pe));
        let several = living.any(|pe| Some(homes.node_in(view, pe)) != first);
        self.comm.set_nodes(Nodes::of(view, self.me(), self.comm.has_engine(), homes), several);
        self.call_sites().join_diverged();
    }

    /// Adopts the node of every PE alive in `view`, connects to those that cannot be mapped, and
    /// shuts out the dead. The agent has memory files and addresses before it publishes the view,
    /// so this waits only for messages that are on their way.
    pub fn refresh(&self, view: &View) {
        let Some(channel) = self.members.channel() else { return };
        self.comm.fence_off(view);
        let alive = |pe: &Pe| view.pes[pe.at()].state == State::Alive;
        let own = (self.me(), self.members.node());
        Pe::all(self.n_pes()).filter(alive).for_each(|pe| {
            let node = self.comm.homes().mapped_node(own, pe, view.pes[pe.at()].node);
            self.segments.move_to(pe, node);
        });
        let lacks = |pe: Pe| match self.comm.has_engine() {
            true => self.comm.awaits_address(view, pe),
            false => !self.segments.has(view.pes[pe.at()].node),
        };
        while Pe::all(self.n_pes()).filter(alive).any(lacks) {
            match channel.receive::<ToPe>() {
                Ok((ToPe::File { node }, mut fds)) => {
                    fds.pop().into_iter().for_each(|file| self.segments.add(node, file));
                }
                Ok((other, _)) => self.comm.receive(other),
                Err(error) => self.members.abort(&format!("the agent is gone: {error}")),
            }
        }
        if let Err(error) = self.comm.connect(view) {
            self.members.abort(&error);
        }
        self.far_calls().tell_new_processes();
    }

    // ---- checkpoint state ---------------------------------------------------------------------

    /// Returns the stamp of tiles that PE `pe` writes for checkpoint `number`.
    pub(crate) fn stamp(&self, pe: Pe, number: CheckpointNumber) -> Stamp {
        let incarnation = self.members.incarnation_of(pe);
        let whole = self.settings.checksum;
        Stamp { number, job: self.job.id, pe, incarnation, whole }
    }

    // ---- job-wide messages --------------------------------------------------------------------

    /// Returns true on the PE that prints job-wide messages: the lowest that lives.
    pub(crate) fn is_reporter(&self) -> bool {
        Pe::all(self.n_pes()).find(|&pe| !self.fewer.is_lost(pe)) == Some(self.me())
    }

    // ---- messages to the launcher -------------------------------------------------------------

    /// Reports that a tile of PE `pe` was verified earlier and is corrupt now: requests a new view,
    /// in which all PEs verify again, and waits for it.
    pub(crate) fn found_corrupt(&self, view: &View, pe: Pe) {
        self.members.report_unusable(view, pe, Flaw::Damaged);
        let waiting = || Waiting::anyone("shmem_restart_pes");
        self.wait_raw(waiting, || self.members.view_number() != view.number);
    }

    // ---- locations ----------------------------------------------------------------------------

    /// Returns the local base address of PE `pe`'s segment for the program's accesses, and notes
    /// the use; null if the segment is not mapped.
    #[inline]
    pub fn reach(&self, pe: Pe) -> *mut u8 {
        self.reached.note(pe);
        self.segments.base(pe)
    }
}
