//! The world of a process: its PE number, its segment, its peers' segments, the view it has joined.
//!
//! Invariants: `joined <= view number`, equal exactly when the PE is not faulted. `heap` is the
//! allocator's state as of now; `covered` is that of the checkpoint being made or last restored.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::far::Far;
use super::finish::Finish;
use super::nodes::Nodes;
use super::regions::Regions;
use super::segments::{self, Segments};
use super::site::Sites;
use super::stream::Streams;
use super::turn::Turns;
use super::vote::Ballot;
use super::wait::Fault;
use super::watch::{Reached, Tracking};
use crate::control::UNRECOVERABLE;
use crate::control::message::{Job, Report, Said, Scrubbed, ToPe};
use crate::control::page::Page;
use crate::control::view::{State, View};
use crate::heap::Heap;
use crate::inject::{Point, Rule, Target};
use crate::segment::waits::Waiting;
use crate::settings::Settings;
use crate::store::coverage::Coverage;
use crate::store::delta::History;
use crate::store::protection::Protection;
use crate::store::refusal::Refused;
use crate::store::stamp::Stamp;
use crate::sys::socket::Channel;
use crate::sys::{crew::Crew, exit, process};

/// Everything a process knows about its job.
#[derive(Debug)]
pub struct World {
    pub(super) me: usize,
    pub(super) incarnation: u32,
    /// The node it runs on; a view on the page may be older than this process.
    pub(super) node: usize,
    pub(super) job: Job,
    pub(super) settings: Settings,
    /// Where the bytes of PEs are.
    pub(crate) segments: Segments,
    /// Which of them the program has used.
    pub(crate) reached: Reached,
    pub(super) page: Arc<Page>,
    pub(super) channel: Option<Arc<Channel>>,
    /// The engine between nodes; None where every PE is mapped.
    pub(super) far: Option<Far>,
    /// What is under way to PEs that are not mapped.
    pub(super) streams: Streams,
    /// Who meets whom in a barrier, in the view joined.
    pub(super) nodes: Mutex<Arc<Nodes>>,
    pub(super) protection: Option<Protection>,
    pub(super) crowded: bool,
    /// Each PE has a processor of its own, and one thread that waits.
    pub(super) spreads: bool,
    pub(super) offers: AtomicU32,
    pub(super) thread_level: i32,
    pub(super) rules: Vec<(u32, Rule)>,
    /// PEs that were lost before this substitute was made one, its own number among them.
    pub(super) lost_before: Vec<u32>,
    /// Incarnations when that was so.
    pub(super) incarnations: Vec<u32>,
    pub(super) joined: AtomicU64,
    /// The view in which calls are carried out: the one joined, or none.
    pub(super) works: AtomicU64,
    pub(super) finish: Finish,
    pub(super) joined_view: Mutex<Option<View>>,
    /// Barriers begun since the last reset, by whose they are.
    pub(super) epochs: [AtomicU64; 2],
    pub(super) agreed: AtomicU64,
    pub(super) vote: Ballot,
    pub(super) sites: Sites,
    pub(super) heap: Mutex<Heap>,
    pub(super) regions: Mutex<Regions>,
    pub(super) covered: Mutex<Option<Coverage>>,
    /// What the next checkpoint may build on; forgotten in every recovery.
    pub(crate) history: Mutex<Option<History>>,
    /// The watch over what this process writes; over in every recovery.
    pub(crate) tracking: Mutex<Tracking>,
    pub(super) used: (AtomicUsize, AtomicUsize),
    pub(crate) refused: Mutex<Refused>,
    pub(super) turns: Turns,
    pub(crate) crew: Crew,
    /// What the scrub of the store has seen.
    pub(crate) scrubbed: Mutex<Scrubbed>,
}

/// A lock whose data stays meaningful whatever a panicking holder did.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// This PE's number.
    #[inline]
    pub fn me(&self) -> usize {
        self.me
    }

    /// Number of PEs.
    #[inline]
    pub fn n_pes(&self) -> usize {
        self.segments.n_pes()
    }

    /// How many processes carried this number before.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The job's random number.
    pub fn job(&self) -> u64 {
        self.job.id
    }

    /// Thread level asked for at initialisation.
    pub fn thread_level(&self) -> i32 {
        self.thread_level
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Argument checks are on (`SHMEM_CHECK`).
    #[inline]
    pub fn checks(&self) -> bool {
        self.settings.check
    }

    /// How this job is protected; None in mode `none`.
    pub fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
    }

    pub(super) fn crowded(&self) -> bool {
        self.crowded
    }

    // ---- views -------------------------------------------------------------------------------

    /// Number of the view the agent shows now.
    #[inline]
    pub fn view_number(&self) -> u64 {
        self.page.number().load(Ordering::Acquire)
    }

    /// The view the agent shows now.
    pub fn view(&self) -> View {
        self.page.read()
    }

    /// True while calls that concern other PEs are not carried out: between a death and the
    /// restart, and for good in a PE that goes on alone.
    #[inline]
    pub fn faulted(&self) -> bool {
        self.view_number() != self.works.load(Ordering::Relaxed)
    }

    /// Number of the view that this PE has joined.
    #[inline]
    pub fn joined(&self) -> u64 {
        self.joined.load(Ordering::Acquire)
    }

    /// True in a substitute that has not taken part in a recovery yet.
    pub fn is_new(&self) -> bool {
        self.incarnation > 0 && self.joined.load(Ordering::Relaxed) == 0
    }

    /// True once the page shows a view, and with an engine one in which this process is alive:
    /// addresses are sent before the view that needs them.
    pub(super) fn shown(&self) -> bool {
        let own = || self.page.member(self.me);
        let alive = || own().state == State::Alive && own().incarnation == self.incarnation;
        self.view_number() >= 1 && (self.far.is_none() || alive())
    }

    /// From now on calls are carried out in that view only.
    pub(super) fn work_in(&self, view: u64) {
        self.works.store(view, Ordering::Release);
    }

    /// The recovery is over: this PE is a member of `view`.
    pub(crate) fn join(&self, view: &View) {
        *lock(&self.joined_view) = Some(view.clone());
        *lock(&self.nodes) = Arc::new(Nodes::of(view, self.me, self.far.is_some()));
        self.joined.store(view.number, Ordering::Release);
        self.join_apart();
    }

    /// PEs lost since this PE last joined a view, and whether their node was lost with them. The
    /// same on every PE, survivor or substitute, that asks in the same view.
    pub fn lost(&self) -> Vec<(usize, bool)> {
        let view = self.view();
        let joined = lock(&self.joined_view);
        let lost = |&pe: &usize| match joined.as_ref() {
            _ if view.pes[pe].state != State::Alive => true,
            Some(joined) => joined.pes[pe].incarnation != view.pes[pe].incarnation,
            None => {
                self.lost_before.contains(&(pe as u32))
                    || self.incarnations[pe] != view.pes[pe].incarnation
            }
        };
        (0..self.n_pes()).filter(lost).map(|pe| (pe, view.pes[pe].with_node)).collect()
    }

    /// The lost PEs as a list for people.
    pub(crate) fn replaced_in(&self, view: &View) -> String {
        let lost = (0..self.n_pes()).filter(|&pe| view.pes[pe].incarnation > 0);
        lost.map(|pe| pe.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Maps the memory of every PE that is alive in `view` and has a new one, connects to those
    /// that cannot be mapped, and shuts out the dead. Descriptors and addresses were sent before
    /// the view was shown, so this waits for nothing that is not on its way.
    pub(crate) fn refresh(&self, view: &View) {
        let Some(channel) = &self.channel else { return };
        self.fence_off(view);
        let stale = |pe: usize| {
            let member = view.pes[pe];
            let lacks = self.mappable(view, pe) && self.segments.lacks(pe, member.memory);
            member.state == State::Alive && (lacks || self.awaits_address(view, pe))
        };
        while (0..self.n_pes()).any(stale) {
            match channel.receive::<ToPe>() {
                Ok((ToPe::Memory { pe, memory }, mut fds)) if (pe as usize) < self.n_pes() => {
                    if let Some(fd) = fds.pop() {
                        self.remap(pe as usize, &(memory, fd));
                    }
                }
                Ok((other, _)) => self.heed(other),
                Err(error) => self.condemn(&format!("the agent is gone: {error}")),
            }
        }
        self.connect(view);
    }

    fn remap(&self, pe: usize, file: &segments::File) {
        if let Err(error) = self.segments.replace(pe, file) {
            self.condemn(&format!("memory of PE {pe} cannot be mapped: {error}"));
        }
    }

    // ---- checkpoint state ---------------------------------------------------------------------

    /// The seal of tiles PE `pe` writes for checkpoint `number`.
    pub(crate) fn stamp(&self, pe: usize, number: u64) -> Stamp {
        let incarnation =
            if pe == self.me { self.incarnation } else { self.page.member(pe).incarnation };
        let whole = self.settings.checksum;
        Stamp { number, job: self.job.id, pe: pe as u32, incarnation, whole }
    }

    /// Number of the last agreed checkpoint, 0 before the first.
    pub fn agreed(&self) -> u64 {
        self.agreed.load(Ordering::Acquire)
    }

    pub(crate) fn set_agreed(&self, number: u64) {
        self.agreed.store(number, Ordering::Release);
    }

    // ---- the agent's ear ----------------------------------------------------------------------

    pub(super) fn say(&self, what: &Said) {
        if let Some(channel) = &self.channel {
            // An agent that is gone takes this process with it; nobody is left to tell.
            let _ = channel.send(what, &[]);
        }
    }

    pub(crate) fn report(&self, report: Report) {
        self.say(&Said::Report(report));
    }

    /// A named step of the protocol: if a fault is to be injected here, waits to be killed.
    #[inline]
    pub(crate) fn point(&self, point: Point, checkpoint: u64) {
        if !self.rules.is_empty() {
            self.stand_at(point, checkpoint);
        }
    }

    #[cold]
    fn stand_at(&self, point: Point, checkpoint: u64) {
        for &(rule, what) in &self.rules {
            if what.matches(self.me, self.node, checkpoint, point) {
                if let Target::Stop(_) = what.target {
                    process::stop();
                    continue;
                }
                self.say(&Said::AtPoint { rule });
                loop {
                    std::thread::park();
                }
            }
        }
    }

    /// A tile of PE `pe` that held when it was checked does not hold any more: asks for a new view,
    /// in which all check anew, and waits for it.
    pub(crate) fn spoiled(&self, view: &View, pe: usize) {
        self.report_damage(view, pe);
        let waiting = || Waiting::anyone("shmem_restart_pes");
        self.wait_raw(waiting, || self.view_number() != view.number);
    }

    /// Says that what PE `pe` keeps is damaged: the launcher orders the next view.
    pub(crate) fn report_damage(&self, view: &View, pe: usize) {
        self.say(&Said::Spoiled { view: view.number, pe: pe as u32 });
    }

    /// Says that the job cannot go on, as every PE does, and ends this process.
    pub(crate) fn condemn(&self, words: &str) -> ! {
        super::complain(words);
        self.say(&Said::Verdict { status: UNRECOVERABLE, words: words.to_string() });
        // Exit handlers of the program must not run on memory that is in the middle of a recovery.
        exit::end(UNRECOVERABLE)
    }

    /// Ends the job, with `words` of the launcher that say why.
    pub(super) fn end_job(&self, status: i32, words: Option<String>) -> ! {
        exit::flush_streams();
        self.say(&Said::GlobalExit { status, words });
        if self.channel.is_none() {
            std::process::exit(status);
        }
        loop {
            std::thread::park(); // the launcher ends every PE
        }
    }

    // ---- the program --------------------------------------------------------------------------

    /// Why the last checkpoint was refused, if it was.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.refused).words().map(str::to_owned)
    }

    /// True if this PE has seen no fault; the error otherwise.
    pub fn healthy(&self) -> Result<(), Fault> {
        if self.cut_short() { Err(Fault) } else { Ok(()) }
    }
}
