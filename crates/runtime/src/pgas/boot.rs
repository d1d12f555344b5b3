//! From `shmem_init` to a [`World`]: settings, the agent's assignment, memory, statics.
//!
//! A process started by `oshrun` finds its control connection in the environment, sends Hello and
//! sleeps until the agent gives it a PE number: at once for an original, after a loss for a spare.
//! A process started without `oshrun` is a job of one PE.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use raidshmem_control::trace;
use raidshmem_core::layout::{Layout, STATICS_MAX};
use raidshmem_core::message::{AssignmentMessage, Job, PeMessage, StartFailure};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe, ViewNumber};
use raidshmem_core::replay::log::Stage;
use raidshmem_core::replay::place::CallPlace;
use raidshmem_core::replay::replicas;
use raidshmem_core::settings::{
    Bind, Fabric, Pages, Provider, Rollback, SettingError, Settings, Trace,
};
use raidshmem_core::store::grouped::FirstGroups;
use raidshmem_core::store::phase::{Phase, Vote};
use raidshmem_core::store::protection::{Protection, ProtectionError};
use raidshmem_core::store::stamp::Stamp;
use raidshmem_core::view::{Member, View};
use raidshmem_disk::input::LoadTarget;
use raidshmem_disk::load::load;
use raidshmem_engines as engines;
use raidshmem_fabric::{EventSink, FabricError, Local};
use raidshmem_segment::log::{NO_INTERVAL, Word};
use raidshmem_segment::statics::{self, Statics};
use raidshmem_segment::{OpenParts, Segment, is_large};
use raidshmem_sys::fork::{self, SharedPiece};
use raidshmem_sys::pool::{self, WorkerPool};
use raidshmem_sys::socket::Channel;
use raidshmem_sys::{environment, exit, futex, inherited, limits, process};
use tracing::level_filters::LevelFilter;

use super::assignment::{self, Assignment, AssignmentError};
use super::complain::complain;
use super::inherit::{Successor, await_quiet, inherit};
use super::panics;
use super::plan::{self, PlanError};
use super::run_time::of_run_time;
use super::world::World;
use super::world::comm::Communication;
use super::world::far::FarLogs;
use super::world::fewer::Fewer;
use super::world::finish::Finish;
use super::world::homes::Homes;
use super::world::local::Local as Logging;
use super::world::members::Membership;
use super::world::memory::PeMemory;
use super::world::pace::Pace;
use super::world::policy::LossPolicy;
use super::world::prelude::Prelude;
use super::world::recovery_state::RecoveryState;
use super::world::remote::{EngineEvents, Remote};
use super::world::segments::Segments;
use super::world::sites::Sites;
use super::world::store::Store;
use super::world::timing::Timing;
use super::world::watch::TouchedPes;
use raidshmem_sys::memory::Part;

/// `SHMEM_THREAD_MULTIPLE`.
pub(in crate::pgas) const THREAD_MULTIPLE: i32 = 3;

/// The crate that a program links, as far as this one must know it.
#[derive(Debug, Clone, Copy)]
pub struct Frontend {
    /// Its build, which must be that of the launcher.
    pub build: &'static str,
    /// The folder of its sources, whose functions are left out of the places shown to people.
    pub sources: &'static str,
}

/// The reason that the library could not be initialised.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// A setting is wrong.
    #[error("{0}")]
    Setting(#[from] SettingError),
    /// The process has no place in a job.
    #[error("{0}")]
    Assignment(#[from] AssignmentError),
    /// Memory could not be mapped.
    #[error("symmetric memory: {0}")]
    Memory(#[from] std::io::Error),
    /// The executable's statics cannot be made symmetric.
    #[error("statics of the executable: {0}")]
    Statics(#[from] statics::StaticsError),
    /// The executable's statics are too large.
    #[error("statics of the executable: {0} bytes; expected at most {STATICS_MAX}")]
    StaticsTooLarge(usize),
    /// The job cannot be protected as asked.
    #[error("{0}")]
    Protection(#[from] ProtectionError),
    /// The engine between nodes could not be opened.
    #[error("{0}")]
    Fabric(#[from] FabricError),
    /// The plan of what checkpoints leave out does not fit this program.
    #[error("{0}")]
    Plan(#[from] PlanError),
}

impl BootError {
    /// Returns the exit status of the process.
    pub fn status(&self) -> i32 {
        match self {
            BootError::Fabric(FabricError::NotLoaded { .. }) => 2,
            BootError::Assignment(error) => error.status(),
            BootError::Memory(_) | BootError::Fabric(_) => 1,
            _ => 2,
        }
    }

    /// Returns the kind of failure, by which the launcher decides about a substitute.
    pub fn cause(&self) -> StartFailure {
        match self {
            _ if self.is_short_of_memory() => cause_of_memory(),
            BootError::Memory(_)
            | BootError::Assignment(_)
            | BootError::Fabric(FabricError::Refused { .. }) => StartFailure::Passing,
            _ => StartFailure::Program,
        }
    }

    /// Returns the message, with the limit that may be the cause.
    pub fn words(&self) -> String {
        let limit = limits::of_address_space().filter(|_| self.is_short_of_memory());
        limit.map_or_else(|| self.to_string(), |limit| format!("{self}; {limit}"))
    }

    fn is_short_of_memory(&self) -> bool {
        let (BootError::Memory(error) | BootError::Assignment(AssignmentError::Memory(error))) =
            self
        else {
            return false;
        };
        error.kind() == std::io::ErrorKind::OutOfMemory
    }
}

/// Returns the kind of failure when memory cannot be mapped.
pub fn cause_of_memory() -> StartFailure {
    limits::of_address_space().map_or(StartFailure::Passing, |_| StartFailure::Limit)
}

/// Builds the world of this process. `at_exit` is called with the status when the process ends by
/// `exit` or by the end of `main`, and `end` with a reason when it cannot continue.
pub fn boot(
    thread_level: i32,
    frontend: Frontend,
    at_exit: fn(i32),
    end: fn(&str) -> !,
) -> Result<World, BootError> {
    let settings = Settings::from_env(environment())?;
    let advised = plan::read(&settings)?;
    inherited::open_standard_descriptors();
    fork::note();
    panics::watch();
    futex::register_barrier();
    let assignment = assignment::assignment(&settings, frontend.build)?;
    exit::at_exit(at_exit)?;
    let world = build((thread_level, frontend), settings, assignment, end)?;
    let layout = world.segments.layout();
    world.segments.ask_huge(layout.heap, layout.heap_len);
    advised.into_iter().for_each(|advised| world.memory.advise(advised));
    Ok(world)
}

fn build(
    (thread_level, frontend): (i32, Frontend),
    settings: Settings,
    assignment: Assignment,
    end: fn(&str) -> !,
) -> Result<World, BootError> {
    let Assignment { job, mut assignment, oversubscribed, page, channel, files } = assignment;
    let (me, n_pes, incarnation) = (assignment.pe.at(), job.n_pes as usize, assignment.incarnation);
    let layout = Layout::new(job.heap_len as usize, n_pes);
    let part = Part::new(Arc::clone(&files[&assignment.node]), me * layout.total, layout.total);
    let own = attach_own(&part, layout, settings.pages)?.leak();
    let large = is_large(layout.heap_len, settings.pages);
    let (how, place) = ((large, open_parts(&settings, &job)), (own, part.clone()));
    let policy = LossPolicy::of(&settings, channel.is_some());
    let homes = Homes::of(&job, policy.keeps_logs(), settings.map);
    let node_of = homes.mapped_nodes((Pe::of(me), assignment.node), &job.node_of);
    let mut segments = Segments::new(Pe::of(me), place, files, &node_of, how, end);
    let original = incarnation == Incarnation::FIRST;
    take_over(own, job.id, Pe::of(me));
    trace::begin(own.trace(), incarnation, level(&settings), settings.debug.then_some(say));
    // A single PE has no connection, and nothing to protect.
    let first = FirstGroups::new(&settings, &job, channel.is_none())?;
    let successor_of_memory = successor(&settings, &job, &assignment);
    let binds = channel.is_some() && settings.bind != Bind::None && !oversubscribed;
    let pool = pool_of(&settings, &job, &assignment, binds);
    if assignment.from_disk {
        let place = (own, &part, assignment.node, large);
        resume((&job, first.of_set(), channel.as_deref()), place, &successor_of_memory, &pool);
    }
    let vote = first_vote(own, first.own(), &successor_of_memory);
    if !original && settings.rollback == Rollback::Local {
        await_quiet(&segments, &page);
    }
    segments.set_statics(map_statics(&part, layout)?); // overwrites inherited memory
    let rules = settings.inject.iter().copied().enumerate().map(|(i, rule)| (i as u32, rule));
    let rules = rules.filter(|(i, _)| !assignment.fired.contains(i)).collect();
    let local = logging(&job, own, &assignment, (policy.keeps_logs(), settings.map));
    let far = local.far.clone();
    let events = EngineEvents { page: Arc::clone(&page), channel: channel.clone(), own, far };
    let remote = open_fabric(&job, &settings, &assignment, oversubscribed, events)?;
    let spreads = !binds && !oversubscribed && thread_level < THREAD_MULTIPLE;
    let shrinks = policy.shrinks();
    let rolls_back_after_loss = first.own().is_some() && !shrinks;
    let groups = first.known(&job, std::mem::take(&mut assignment.moves));
    remote.iter().for_each(|remote| policy.prepare(&*remote.engine));
    // Leaked: it lives as long as the process, like the segments.
    let segments: &Segments = Box::leak(Box::new(segments));
    let world = World {
        timing: Timing::new(&settings, assignment.past, settings.backup_mode.protects()),
        prelude: Prelude::begin(&mut assignment, n_pes, rolls_back_after_loss),
        memory: PeMemory::new(segments),
        comm: Communication::new(segments, remote, homes),
        store: Store::new(groups, RecoveryState::new(own, vote), pool),
        members: Membership::new(assignment, page, channel, rules),
        pace: Pace { oversubscribed, spreads, offers: AtomicU32::new(0) },
        job,
        settings,
        segments,
        reached: TouchedPes::none(n_pes),
        thread_level,
        finish: Finish::default(),
        local,
        fewer: Fewer::new(shrinks, n_pes),
        policy,
        sites: Sites::of(frontend.sources),
        meetings: Mutex::default(),
    };
    arrive(&world, original);
    Ok(world)
}

/// Returns the logging state of this process, which takes over the log of its predecessor and what
/// far PEs have left here.
fn logging(
    job: &Job,
    own: &'static Segment,
    assignment: &AssignmentMessage,
    (is_on, maps): (bool, bool),
) -> Logging {
    let (whose, incarnation) =
        ((assignment.pe, job.n_pes as usize, job.id), assignment.incarnation);
    let mut local = Logging::new(is_on, job.n_pes as usize);
    if is_on {
        let kept = take_over_log(own, whose, incarnation, &local);
        let full = Arc::clone(&local.said_full);
        let skew = Arc::clone(&local.skew);
        let whose = (whose.0, job.id, &*replicas::unmapped(&job.node_of, maps));
        let far = || Arc::new(FarLogs::new(own, whose, (incarnation, kept), (full, skew)));
        local.far = (job.fabric != Fabric::Shm).then(far);
    }
    local
}

/// Selects the parts of other PEs' stores that this process writes.
fn open_parts(settings: &Settings, job: &Job) -> OpenParts {
    let replica = settings.rollback == Rollback::Local && job.fabric == Fabric::Shm;
    OpenParts { snapshots: settings.snapshots == 2, replica }
}

/// Returns the level of events that this PE keeps.
fn level(settings: &Settings) -> LevelFilter {
    match settings.trace {
        Trace::Off => LevelFilter::OFF,
        Trace::Info => LevelFilter::INFO,
        Trace::Debug => LevelFilter::DEBUG,
    }
}

/// Prints an event.
fn say(words: &str) {
    complain(&format!("debug: {words}"));
}

/// Waits for the first view, which an original joins.
fn arrive(world: &World, original: bool) {
    if !original {
        world.segments.guarded().shadow_inherited(world.job());
    }
    world.store.recovery.show();
    world.wait_raw(
        || world.waiting_for_all("shmem_init"),
        || world.members.shown(world.comm.has_engine()),
    );
    if original || world.comm.has_engine() {
        world.refresh(&if original { first_view(world) } else { world.members.view() });
    }
    if original {
        world.completion().join_all(&first_view(world));
    }
}

/// Resets the words of a segment for a new process, whichever process had it before.
fn take_over(own: &Segment, job: u64, me: Pe) {
    own.words().bell.sleepers.store(0, Ordering::SeqCst); // a dead owner may have left some
    own.words().bell.watchers.store(0, Ordering::SeqCst);
    own.words().waits.clear();
    own.words().abort.store(0, Ordering::SeqCst);
    own.words().ending.store(0, Ordering::SeqCst); // the dead may have been in shmem_finalize
    let header = own.header();
    if !header.is_of(job, me) {
        header.forget();
        header.create(job, me);
    }
}

/// Takes over the log of the predecessor, or begins an empty one; returns true in the first case.
fn take_over_log(
    own: &Segment,
    (me, n_pes, job): (Pe, usize, u64),
    incarnation: Incarnation,
    local: &Logging,
) -> bool {
    let (log, owner) = (own.log(n_pes), u64::from(me.0) + 1);
    let kept = incarnation != Incarnation::FIRST
        && log.get(Word::Job) == job
        && log.get(Word::Owner) == owner;
    if !kept {
        log.clear((0, NO_INTERVAL), CallPlace::NONE);
        log.set(Word::Job, job);
        log.set(Word::Owner, owner);
        log.set(Word::Met, 0);
    }
    log.set(Word::Flight, 0);
    log.set(Word::Light, u64::from(local.is_light()));
    log.set_stage(incarnation.0, Stage::Replaying);
    kept
}

/// Fills the memory from the checkpoint on disk that the job begins from. If that fails, the job
/// ends with an error message.
fn resume(
    (job, protection, channel): (&Job, Option<&Protection>, Option<&Channel>),
    (own, part, node, large): (&'static Segment, &Part, u32, bool),
    successor: &Successor,
    pool: &WorkerPool,
) {
    let (Some(resume), Some(protection)) = (&job.resume, protection) else { return };
    let n_pes = job.n_pes;
    let Successor { job, pe, incarnation, checksum, .. } = *successor;
    let stamp = Stamp { number: resume.number, job, pe, incarnation, whole: checksum };
    let target = LoadTarget { own, part, large, protection, stamp, node, n_pes, pool };
    let say = |message: PeMessage| channel.map(|channel| channel.send(&message, &[]));
    let error = match load(resume, &target) {
        Ok(lost) => {
            for error in lost {
                complain(&format!("PE {pe}: {error}; it counts as lost"));
            }
            return;
        }
        Err(error) => error,
    };
    say(PeMessage::GlobalExit { status: 2, words: Some(error.to_string()) });
    loop {
        std::thread::park(); // the launcher ends every PE
    }
}

/// Returns the vote with which a process begins.
fn first_vote(
    own: &'static Segment,
    protection: Option<&Protection>,
    successor: &Successor,
) -> Vote {
    match protection {
        _ if successor.incarnation == Incarnation::FIRST => {
            Vote { phase: Some(Phase::Agreed(CheckpointNumber::START)), decided: None }
        }
        Some(protection) => inherit(own, protection, successor),
        None => Vote { phase: None, decided: None },
    }
}

/// Returns the description of the process that adopts a dead process's memory.
fn successor(settings: &Settings, job: &Job, assignment: &AssignmentMessage) -> Successor {
    let here = |node: &&u32| job.machine(**node) == job.machine(assignment.node);
    Successor {
        job: job.id,
        pe: assignment.pe,
        incarnation: assignment.incarnation,
        checksum: settings.checksum,
        sharing: job.node_of.iter().filter(here).count(),
    }
}

/// Starts the worker threads of this PE: its share of the processors, or as many as configured.
/// `binds` is true if agents bind PEs.
fn pool_of(
    settings: &Settings,
    job: &Job,
    assignment: &AssignmentMessage,
    binds: bool,
) -> WorkerPool {
    let cpus = process::usable();
    let machine = |node: &u32| job.machine(*node);
    let (here, home) =
        (machine(&assignment.node), job.node_of.get(assignment.pe.at()).map(machine));
    let bound = binds && home == Some(here);
    let sharing = match bound {
        true => 1,
        false => job.node_of.iter().filter(|&node| machine(node) == here).count(),
    };
    let threads = match settings.threads {
        0 => pool::fair(cpus.len(), sharing),
        asked => asked,
    };
    WorkerPool::new(threads, cpus)
}

/// Opens the engine between nodes, if the job has one, and announces its address.
fn open_fabric(
    job: &Job,
    settings: &Settings,
    assignment: &AssignmentMessage,
    oversubscribed: bool,
    events: EngineEvents,
) -> Result<Option<Remote>, BootError> {
    let (segment, channel) = (events.own, events.channel.clone());
    let events: Arc<dyn EventSink> = Arc::new(events);
    let (me, n_pes) = (assignment.pe.at(), job.n_pes as usize);
    let (incarnation, job_id) = (assignment.incarnation, job.id);
    let local = Local {
        me: Pe::of(me),
        incarnation,
        n_pes,
        job: job_id,
        segment,
        oversubscribed,
        events: Arc::clone(&events),
    };
    let (device, provider) = (settings.device.as_ref(), settings.provider.as_ref());
    let chosen = engines::Chosen { device, provider: provider.map(Provider::name) };
    let Some(engine) = engines::open(job.fabric, chosen, local)? else {
        return Ok(None);
    };
    if let Some(channel) = channel {
        let address = PeMessage::Address { address: engine.address() };
        channel.send(&address, &[]).map_err(AssignmentError::from)?;
    }
    let links = Mutex::new(vec![Default::default(); n_pes]);
    let incarnations =
        assignment.incarnations.iter().map(|&known| AtomicU32::new(known.0)).collect();
    Ok(Some(Remote { engine, events, links, incarnations }))
}

/// Returns the view that every original joins: number 1, all alive. Any death shown by then is a
/// fault.
fn first_view(world: &World) -> View {
    View {
        number: ViewNumber(1),
        pes: world.job.node_of.iter().copied().map(Member::first).collect(),
        local: false,
    }
}

fn attach_own(part: &Part, layout: Layout, pages: Pages) -> Result<Segment, BootError> {
    let (segment, at_base) = Segment::own(part, layout).map_err(std::io::Error::from)?;
    if !at_base {
        complain(
            "symmetric memory is not at its usual address: pointers stored in it are not valid in \
             a substitute",
        );
    }
    Ok(segment.twice(part, is_large(layout.heap_len, pages)))
}

/// Copies the executable's statics into the segment, and maps the segment in their place.
fn map_statics(part: &Part, layout: Layout) -> Result<Option<Statics>, BootError> {
    let Some(mut statics) = statics::find()? else { return Ok(None) };
    if statics.len > STATICS_MAX {
        return Err(BootError::StaticsTooLarge(statics.len));
    }
    statics.leave_out(of_run_time());
    let mut shared = Vec::new();
    for piece in &statics.pieces {
        let offset = layout.statics + statics.offsets(piece).start;
        // SAFETY: whole pages of the executable's own writable data (statics::find), which hold no
        // Rust object. A thread that the program started before initialisation may write them
        // meanwhile; then that write is lost, as docs/checkpoints.md says.
        unsafe { part.move_here(offset, piece.len(), piece.start) }
            .map_err(std::io::Error::from)?;
        shared.push(SharedPiece { part: part.clone(), offset, at: piece.clone() });
    }
    // SAFETY: these pages stay mapped so from here on, and hold no Rust object.
    unsafe { fork::keep_private(shared) };
    Ok(Some(statics))
}
