//! This PE as a member of the job: the published views, the joined one, and the connection to the
//! agent.
//!
//! Invariants: `joined <= view number`, equal exactly when the PE is not faulted, except in a PE
//! that continues alone, which stays faulted.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use raidshmem_control::page::Page;
use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::inject::{FaultTarget, InjectedFault, Point};
use raidshmem_core::message::{AssignmentMessage, Flaw, PeMessage, ProgressReport, RecoveryStep};
use raidshmem_core::placement::pages::PageRuns;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use raidshmem_core::view::{Member, MoveRequest, State, View};
use raidshmem_sys::lock;
use raidshmem_sys::socket::Channel;
use raidshmem_sys::{exit, process};
use tracing::info;

use crate::pgas::complain::complain;

/// A PE was lost: the published view is not the one that this PE has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a PE was lost")]
pub struct Fault;

/// The membership of the job, as a PE knows it.
#[derive(Debug)]
pub struct Membership {
    me: Pe,
    incarnation: Incarnation,
    /// The node of this PE; a view on the page may be older than this process.
    node: u32,
    page: Arc<Page>,
    /// The agent; None in a job of one PE without a launcher.
    channel: Option<Arc<Channel>>,
    /// PEs that were lost before this process became a substitute, its own number among them.
    lost_before: Vec<Pe>,
    /// True if the memory of this process was read from a set on disk.
    from_disk: bool,
    /// The incarnations of all PEs then.
    incarnations: Vec<Incarnation>,
    joined: AtomicU64,
    joined_view: Mutex<Option<View>>,
    /// The view in which calls are carried out: the joined one, or an impossible one.
    works: AtomicU64,
    /// Faults to inject.
    rules: Vec<(u32, InjectedFault)>,
    /// True while a recovery encodes the restored checkpoint again.
    heals: AtomicBool,
    /// The request to drain a node that the last barrier Q agreed on, as a word.
    agreed_drain: AtomicU64,
}

/// The time in which a recovery encodes the restored checkpoint again.
pub(crate) struct HealScope<'a>(&'a AtomicBool);

impl Drop for HealScope<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Membership {
    /// Returns the membership of a process that has joined no view yet.
    pub(in crate::pgas) fn new(
        assignment: AssignmentMessage,
        page: Arc<Page>,
        channel: Option<Arc<Channel>>,
        rules: Vec<(u32, InjectedFault)>,
    ) -> Membership {
        Membership {
            me: assignment.pe,
            incarnation: assignment.incarnation,
            node: assignment.node,
            page,
            channel,
            lost_before: assignment.lost,
            from_disk: assignment.from_disk,
            incarnations: assignment.incarnations,
            joined: AtomicU64::new(0),
            joined_view: Mutex::new(None),
            works: AtomicU64::new(0),
            rules,
            heals: AtomicBool::new(false),
            agreed_drain: AtomicU64::new(0),
        }
    }

    /// Returns how many processes carried this number before.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns PE `pe` in the published view.
    #[inline]
    pub(in crate::pgas) fn member(&self, pe: Pe) -> Member {
        self.page.member(pe)
    }

    /// Returns the incarnation of PE `pe`: that of this process, or that in the published view.
    pub fn incarnation_of(&self, pe: Pe) -> Incarnation {
        if pe == self.me { self.incarnation } else { self.page.member(pe).incarnation }
    }

    /// Returns the connection to the agent, if there is one.
    pub(in crate::pgas) fn channel(&self) -> Option<&Channel> {
        self.channel.as_deref()
    }

    /// Tells the launcher the NUMA nodes of this PE's pages.
    pub(crate) fn report_pages(&self, pages: PageRuns) {
        if let Some(channel) = self.channel() {
            // If the agent is gone, this process dies with it.
            let _ = channel.send(&PeMessage::Pages { pe: self.me, pages }, &[]);
        }
    }

    /// Returns true unless this is a job of one PE without a launcher.
    pub(in crate::pgas) fn has_agent(&self) -> bool {
        self.channel.is_some()
    }

    /// Returns true once every PE has entered `shmem_finalize`.
    pub(in crate::pgas) fn all_have_arrived(&self) -> bool {
        self.page.finished().load(Ordering::SeqCst) == 1
    }

    /// Returns true once the launcher has the prelude record of each PE.
    pub(in crate::pgas) fn has_preludes(&self) -> bool {
        self.page.preludes_kept().load(Ordering::SeqCst) == 1
    }

    /// Returns true once the job must stop after its next checkpoint.
    pub(in crate::pgas) fn is_stopping(&self) -> bool {
        self.page.stopping().load(Ordering::SeqCst) == 1
    }

    /// Returns the request to drain a node after the next checkpoint, if the launcher has made one.
    pub(crate) fn drain(&self) -> Option<MoveRequest> {
        MoveRequest::unpack(self.page.drain().load(Ordering::SeqCst))
    }

    /// Returns true if PEs no longer wait for a request.
    pub(crate) fn is_drain_over(&self, request: MoveRequest) -> bool {
        self.page.drains_over().load(Ordering::SeqCst) >= u64::from(request.serial)
    }

    /// Notes the request that all PEs of a checkpoint have agreed on.
    pub(crate) fn agree_on_drain(&self, request: Option<MoveRequest>) {
        self.agreed_drain.store(MoveRequest::pack(request), Ordering::Relaxed);
    }

    /// Returns the request that all PEs of the last checkpoint have agreed on.
    pub(crate) fn agreed_drain(&self) -> Option<MoveRequest> {
        MoveRequest::unpack(self.agreed_drain.load(Ordering::Relaxed))
    }

    /// Returns true if this PE runs on that node.
    pub(crate) fn is_on(&self, node: u32) -> bool {
        self.node == node
    }

    /// Returns the node of this PE.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// Returns the view that this PE has joined; None before the first.
    pub(in crate::pgas) fn joined_view(&self) -> MutexGuard<'_, Option<View>> {
        lock(&self.joined_view)
    }

    /// Makes this PE a member of `view`.
    pub(in crate::pgas) fn join(&self, view: &View) {
        info!("view {} joined", view.number);
        *lock(&self.joined_view) = Some(view.clone());
        self.joined.store(view.number.0, Ordering::Release);
    }

    /// Returns the number of the view that the agent publishes now.
    #[inline]
    pub fn view_number(&self) -> ViewNumber {
        ViewNumber(self.page.number().load(Ordering::Acquire))
    }

    /// Returns the view that the agent publishes now.
    pub fn view(&self) -> View {
        self.page.read()
    }

    /// Returns true while calls that concern other PEs are not carried out: between a death and the
    /// restart, and for good in a PE that continues alone.
    #[inline]
    pub fn faulted(&self) -> bool {
        self.view_number() != ViewNumber(self.works.load(Ordering::Relaxed))
    }

    /// Returns the number of the view that this PE has joined.
    #[inline]
    pub fn joined(&self) -> ViewNumber {
        ViewNumber(self.joined.load(Ordering::Acquire))
    }

    /// Returns true if the memory of this process was read from a set on disk.
    pub fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// Returns true in a substitute that has not taken part in a recovery yet.
    pub fn is_new(&self) -> bool {
        self.incarnation > Incarnation::FIRST && self.joined.load(Ordering::Relaxed) == 0
    }

    /// Returns true once the page shows a view; with an engine, a view in which this process is
    /// alive, because addresses are sent before the view that needs them.
    pub(in crate::pgas) fn shown(&self, with_engine: bool) -> bool {
        let own = || self.page.member(self.me);
        let alive = || own().state == State::Alive && own().incarnation == self.incarnation;
        self.view_number() >= ViewNumber(1) && (!with_engine || alive())
    }

    /// Restricts calls to that view from now on.
    pub(in crate::pgas) fn work_in(&self, view: ViewNumber) {
        self.works.store(view.0, Ordering::Release);
    }

    /// Returns the PEs lost since this PE last joined a view, each with true if its node was lost
    /// too. Every PE that asks in the same view, survivor or substitute, gets the same answer.
    pub fn lost(&self) -> Vec<(Pe, bool)> {
        let view = self.view();
        let joined = self.joined_view();
        let lost = |&pe: &Pe| match joined.as_ref() {
            _ if view.pes[pe.at()].state != State::Alive => true,
            Some(joined) => joined.pes[pe.at()].incarnation != view.pes[pe.at()].incarnation,
            None => {
                self.lost_before.contains(&pe)
                    || self.incarnations[pe.at()] != view.pes[pe.at()].incarnation
            }
        };
        Pe::all(view.pes.len()).filter(lost).map(|pe| (pe, view.pes[pe.at()].with_node)).collect()
    }

    /// Returns the replaced PEs as a list for messages, with its verb.
    pub(crate) fn replaced_in(&self, view: &View) -> String {
        let replaced = |pe: &Pe| view.pes[pe.at()].incarnation > Incarnation::FIRST;
        let lost: Vec<Pe> = Pe::all(view.pes.len()).filter(replaced).collect();
        format!("{} {}", Pe::names(&lost), if lost.len() == 1 { "was" } else { "were" })
    }

    // ---- messages to the launcher -------------------------------------------------------------

    pub(in crate::pgas) fn say(&self, what: &PeMessage) {
        info!("reports: {what}");
        if let Some(channel) = &self.channel {
            // If the agent is gone, this process dies with it, and there is no receiver left.
            let _ = channel.send(what, &[]);
        }
    }

    pub(crate) fn report(&self, report: ProgressReport) {
        self.say(&PeMessage::Report(report));
    }

    /// Sends a progress report without tracing it.
    pub(crate) fn report_progress(&self, report: ProgressReport) {
        if let Some(channel) = &self.channel {
            let _ = channel.send(&PeMessage::Report(report), &[]); // as above
        }
    }

    /// Reports a step of the recovery; only PE 0 does.
    pub(crate) fn report_step(&self, step: RecoveryStep) {
        if self.me == Pe(0) {
            self.report(ProgressReport::Step { step });
        }
    }

    /// Marks the steps until the end of the returned scope as those of an encoding again.
    pub(crate) fn heal(&self) -> HealScope<'_> {
        self.heals.store(true, Ordering::Relaxed);
        HealScope(&self.heals)
    }

    /// Returns true while a recovery encodes the restored checkpoint again.
    pub(crate) fn heals(&self) -> bool {
        self.heals.load(Ordering::Relaxed)
    }

    /// Marks a named step of the protocol; if a fault is injected here, waits to be killed.
    #[inline]
    pub(crate) fn point(&self, point: Point, checkpoint: CheckpointNumber) {
        if !self.rules.is_empty() {
            self.stand_at(point, checkpoint);
        }
    }

    #[cold]
    fn stand_at(&self, point: Point, checkpoint: CheckpointNumber) {
        let point = if self.heals() { point.of_heal() } else { point };
        for &(rule, what) in &self.rules {
            if what.matches(self.me, self.node as usize, checkpoint, point) {
                self.say(&PeMessage::AtPoint { rule });
                if let FaultTarget::Stop(_) = what.target {
                    process::stop();
                    continue;
                }
                loop {
                    std::thread::park();
                }
            }
        }
    }

    /// Reports that this PE waits after that checkpoint for its node to be drained.
    pub(crate) fn report_drained(&self, request: MoveRequest, checkpoint: CheckpointNumber) {
        self.say(&PeMessage::Drained { request, view: self.joined(), checkpoint });
    }

    /// Reports that what PE `pe` keeps cannot be used, so that the launcher orders the next view.
    pub(crate) fn report_unusable(&self, view: &View, pe: Pe, flaw: Flaw) {
        self.say(&PeMessage::Unusable { view: view.number, pe, flaw });
    }

    /// Reports, as every PE does, that the job cannot continue, and ends this process.
    pub(crate) fn abort(&self, words: &str) -> ! {
        if !self.has_agent() {
            complain(words); // otherwise the launcher prints it, once for all PEs
        }
        self.say(&PeMessage::Verdict { status: UNRECOVERABLE, words: words.to_string() });
        // Exit handlers of the program must not run on memory that is in the middle of a recovery.
        exit::end(UNRECOVERABLE)
    }

    /// Ends the job; the launcher prints `words` as the reason.
    pub fn end_job(&self, status: i32, words: Option<String>) -> ! {
        exit::flush_streams();
        self.say(&PeMessage::GlobalExit { status, words });
        if !self.has_agent() {
            std::process::exit(status);
        }
        loop {
            std::thread::park(); // the launcher ends every PE
        }
    }
}
