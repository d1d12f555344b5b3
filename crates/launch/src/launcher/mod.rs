//! The launcher: carries out the decisions of [`raidshmem_core::membership`], and prints messages.
//!
//! If nodes map each other, it holds a descriptor of every PE's memory, so that it can wipe a lost
//! node's memory before anything is rebuilt, and a pidfd of every process, so that a node declared
//! lost is certainly dead. Both disappear with the launcher. Orphans (the PEs of a killed agent,
//! children of a program) become the launcher's children, and it kills and reaps them.

use std::time::{Duration, Instant};

use raidshmem_control::link::timespec;
use raidshmem_control::trace;
use raidshmem_core::detector::Timing;
use raidshmem_core::ended::{REQUEUE, UNRECOVERABLE};
use raidshmem_core::membership::{Action, Membership, MembershipEvent, Shape};
use raidshmem_core::message::{Down, Party};
use raidshmem_core::quantity::Pe;
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::Fabric;
use raidshmem_sys::process;
use rustix::event::{PollFd, PollFlags, poll};
use tracing::info;

use super::cli::ready::Ready;
use super::handshake::random_secret;
use super::heartbeats::Heartbeats;
use super::lines::{Tone, Writer, show};
use super::readers::Readers;
use raidshmem_report::event::What;

mod backoff;
mod choosing;
mod cleanup;
mod detection;
mod diagnosis;
mod disk;
pub mod dry_run;
mod ending;
mod error;
mod event_bus;
mod failures;
mod fallback;
mod falling;
mod gather;
mod input;
mod job;
mod job_end;
mod joining;
mod listener;
mod lost;
mod messages;
mod metrics;
mod nodes;
mod page_nodes;
mod placement;
mod poll_token;
mod report;
mod signals;
mod slurm;
mod standing;
mod statistics;
mod status;
mod storing;
mod teardown;
mod waiting;

use backoff::RestartBackoff;
use cleanup::Cleanup;
use detection::{Detection, HeartbeatPath};
use diagnosis::Diagnosis;
use disk::SetWriter;
use ending::LAST_LINES;
pub use error::LaunchError;
use event_bus::EventBus;
use fallback::{FallBack, begins_in_store};
use job::{configuration, configure, job_id, job_of, record_of};
use job_end::JobEnd;
use joining::{JoinSite, Joiner};
use listener::Listener;
use nodes::Nodes;
use page_nodes::PageNodes;
use placement::PlacementReport;
use poll_token::PollToken;
use signals::Signals;
use slurm::SlurmHosts;
use standing::StatusDisplay;
use storing::DiskEvent;

/// The parts of a launcher. It passes each event on to the part that it concerns.
struct Launcher {
    machine: Membership,
    nodes: Nodes,
    detection: Detection,
    cleanup: Cleanup,
    events: EventBus,
    end: JobEnd,
    rests: RestartBackoff,
    diagnosis: Diagnosis,
    status: StatusDisplay,
    /// The listener for other hosts' agents; by now it rejects every other connection.
    listener: Option<Listener>,
    joiner: Joiner,
    /// The placement, while bindings of some nodes are missing; None once it is printed.
    placement: Option<PlacementReport>,
    /// The NUMA nodes of pages.
    pages: PageNodes,
    /// The standard input, if it is sent to another host.
    input: Option<input::Sent>,
    /// The writer of checkpoints on disk, if these are enabled.
    disk: Option<SetWriter>,
    /// The sets to fall back to, if checkpoints are written to disk.
    falling: Option<FallBack>,
    /// The hosts of a Slurm allocation.
    slurm: Option<SlurmHosts>,
    /// True if PEs are on several hosts without a fabric between them.
    no_fabric_between_hosts: bool,
}

/// Runs a job, which writes to `readers`, to its end and returns its exit status.
pub fn run(mut ready: Ready, readers: Readers, build: &'static str) -> Result<i32, LaunchError> {
    let system = |what| move |error| LaunchError::System { what, error };
    trace::begin_own();
    process::adopt_orphans().map_err(system("adopting orphans"))?;
    let signals = Signals::catch(ready.stop_signal).map_err(system("signals"))?;
    let lines = Writer::begin().map_err(system("thread for lines"))?;
    let (mut nodes, listener) = gather::all(&mut ready, &signals, build)?;
    choosing::find_set(&mut ready, &mut nodes, &signals)?;
    let pages = PageNodes::new(&mut ready);
    let ready = &ready;
    let (shape, settings) = (&ready.shape, &ready.settings);
    placement::print_what_is_survived(ready);
    let job = job_of(ready, job_id().map_err(system("random number of the job"))?);
    let timing = Timing { period: settings.period(), limit: settings.node_timeout };
    let (net, heartbeats) = listener.as_ref().map(listen_to_heartbeats).transpose()?.unzip();
    configure(&mut nodes, ready, &job, net.as_ref())?;
    let remotes = nodes.iter().filter_map(|(&node, n)| Some((node, n.remote.as_ref()?.beats)));
    let detection = Detection::new(nodes.keys().copied(), heartbeats, remotes.collect(), timing);
    let (machine, first) = machine_of(ready);
    let configuration = configuration(ready, &job, net.as_ref(), (0, ready.cluster.is_some()));
    let joiner = Joiner::new(ready, configuration, listener.as_ref(), build);
    let several = shape.node_of.iter().any(|node| *node != shape.node_of[0]);
    let mut launcher = Launcher {
        machine,
        nodes: Nodes::new(nodes),
        detection,
        cleanup: Cleanup::new(&job).map_err(system("thread for long work"))?,
        events: EventBus::new(settings, record_of(ready), readers)
            .map_err(system("thread for events"))?,
        end: JobEnd::new(signals, ready.timeout),
        rests: RestartBackoff::default(),
        diagnosis: Diagnosis::new(settings.stall),
        status: StatusDisplay::new(ready),
        listener,
        joiner: joiner.map_err(system("path of oshrun"))?,
        placement: ready.report_placement.then(|| PlacementReport::new(ready)),
        pages,
        input: input::send(ready).map_err(system("standard input"))?,
        disk: SetWriter::new(ready, &job),
        falling: FallBack::new(ready, &job),
        slurm: SlurmHosts::new(ready).map_err(system("thread for Slurm"))?,
        no_fabric_between_hosts: ready.cluster.is_some() && shape.fabric == Fabric::Shm && several,
    };
    let decisions = launcher.detection.begin();
    launcher.detect(decisions, HeartbeatPath::Link);
    launcher.act(first);
    let status = launcher.serve();
    launcher.listener = None;
    launcher.joiner.end();
    launcher.nodes.shut_down(&mut launcher.end);
    show(None);
    launcher.events.sum_up(launcher.machine.not_due());
    let limit = launcher.end.is_hurried().then_some(LAST_LINES);
    launcher.events.end(status, limit, launcher.end.fds());
    lines.finish(limit, launcher.end.fds());
    Ok(status)
}

/// Returns the membership machine of a job, and its first actions.
fn machine_of(ready: &Ready) -> (Membership, Vec<Action>) {
    let starts = ready.starts.clone().unwrap_or_else(|| ready.shape.node_of.clone());
    let begun = Shape { node_of: starts, ..ready.shape.clone() };
    let site = ready.protected.site.clone();
    let (mut machine, first) = Membership::new(&begun, &ready.settings, site);
    ready.resume.iter().for_each(|resume| machine.resume_from(resume.number));
    if begins_in_store(ready) {
        _ = machine.handle(MembershipEvent::SetStored); // requires no action
    }
    if ready.cluster.is_some() {
        machine.let_nodes_be_asked();
    }
    (machine, first)
}

/// Returns the secret and the port for the agents' heartbeats, and the socket that receives these.
fn listen_to_heartbeats(listener: &Listener) -> Result<((Secret, u16), Heartbeats), LaunchError> {
    let system = |what| move |error| LaunchError::System { what, error };
    let key = random_secret().map_err(system("random secret of the job"))?;
    let socket = listener.datagrams().map_err(system("socket for heartbeats"))?;
    let port = socket.local_addr().map_err(system("socket for heartbeats"))?.port();
    let heartbeats = Heartbeats::new(socket, Party::Launcher, &key);
    Ok(((key, port), heartbeats))
}

impl Launcher {
    /// Passes events on until the job is over, and returns its status.
    fn serve(&mut self) -> i32 {
        loop {
            if let Some(status) = self.over() {
                return status;
            }
            self.pass_on_signals();
            for source in self.wait() {
                match source {
                    PollToken::Channel(node) => self.listen(node),
                    PollToken::End(node) => self.starter_ended(node),
                    PollToken::Word(node) => self.supervisor_spoke(node),
                    PollToken::Worker => self.finish_work(),
                    PollToken::Nodes | PollToken::Other => {}
                }
                if self.over().is_some() {
                    break; // the job is over; further messages do not matter
                }
            }
            if let Some(end) = self.interruption() {
                return self.end_with(end);
            }
            let site = JoinSite {
                nodes: &mut self.nodes,
                cleanup: &mut self.cleanup,
                events: &mut self.events,
            };
            if let Some((node, beats)) = self.joiner.step(self.listener.as_mut(), site) {
                let decisions = self.detection.add(node, beats);
                self.detect(decisions, HeartbeatPath::Link);
            }
            self.receive_heartbeats();
            self.check_clocks();
            self.answer_callers();
            self.send_input();
            self.status.draw(&self.machine, &self.nodes, &self.events);
            for pe in self.rests.over() {
                self.handle(MembershipEvent::Rested { pe });
            }
            self.check_search();
            let waits = self.machine.unrecoverable() && self.over().is_none();
            if self.end.words_are_late(waits) {
                let actions = self.machine.cut_short();
                self.act(actions);
            }
        }
    }

    /// Waits until something happens or a timer expires; returns the possible sources.
    fn wait(&mut self) -> Vec<PollToken> {
        self.nodes.register();
        let worker = (PollFd::new(&self.cleanup, PollFlags::IN), PollToken::Worker);
        let nodes = self.nodes.fds().into_iter();
        let (mut fds, mut sources): (Vec<_>, Vec<_>) = nodes.chain([worker]).unzip();
        fds.extend(self.end.fds());
        fds.extend(self.detection.fds());
        fds.extend(self.listener.iter().flat_map(Listener::fds));
        fds.extend(self.joiner.fds());
        fds.extend(self.diagnosis.fds());
        fds.extend(self.input.as_ref().and_then(input::Sent::fd));
        let slurm = self.slurm.as_ref().map(SlurmHosts::fd);
        fds.extend(slurm.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        sources.resize(fds.len(), PollToken::Other);
        let _ = poll(&mut fds, self.left().map(timespec).as_ref());
        let ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>();
        let found = sources.into_iter().zip(ready).filter_map(|(one, ready)| ready.then_some(one));
        found.flat_map(|source| self.nodes.sources(source)).collect()
    }

    /// Returns the time until the next timer is due.
    fn left(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = |end: Instant| end.saturating_duration_since(now);
        let listener = self.listener.as_ref().and_then(Listener::deadline);
        let nodes = [self.nodes.late(), self.joiner.deadline()];
        let times =
            [listener, self.diagnosis.deadline(), self.status.next()].into_iter().chain(nodes);
        let end = self.end.left(now, self.events.now(), self.machine.unrecoverable());
        let search = self.falling.as_ref().and_then(|falling| falling.left(now));
        let slurm = self.slurm.as_ref().and_then(|slurm| slurm.left(now));
        let limits = [self.detection.left(), self.rests.left(now), end, search, slurm];
        let limits = limits.into_iter().chain(times.map(|time| time.map(left)));
        // Add a nanosecond, so that the timer has expired on wake-up.
        limits.flatten().min().map(|left| left + Duration::from_nanos(1))
    }

    // ---- the end of the job -------------------------------------------------------------------

    /// Returns the status of a job that is over.
    fn over(&mut self) -> Option<i32> {
        if let Some(words) = self.nodes.take_failure() {
            self.events.print_verdict(&words);
            self.end.propose(1);
        }
        self.end.status()
    }

    /// Prints the reason why the job ends, and returns its status.
    fn end_with(&mut self, (status, words): (i32, String)) -> i32 {
        self.events.print_verdict(&words);
        self.end.decide(status);
        status
    }

    /// Ends the job because a node cannot do its work; only the first reason counts.
    fn fail(&mut self, node: u32, what: &str) {
        if self.over().is_none() {
            let words = format!("{}: {what}", self.nodes.name(node));
            self.end_with((1, words));
        }
    }

    /// Returns the status and the reason if a signal or the time limit ends the job. With
    /// `SHMEM_FT_STORE`, the first signal that asks for a stop only makes the job stop after its
    /// next checkpoint.
    fn interruption(&mut self) -> Option<(i32, String)> {
        if let Some((signal, asks)) = self.end.stopped()
            && (!asks || self.request_stop(None) != Some(true))
        {
            return Some(self.end.hurry(signal));
        }
        self.end.time_out(self.events.now())
    }

    /// Handles the stop signal at an agent, which a batch system sends to the processes of each
    /// node: the first from each agent requests a stop, and a second ends the job at once.
    fn stop_signal_at(&mut self, node: u32) {
        if self.request_stop(Some(node)) == Some(false) {
            let end = self.end.hurry(self.end.stop_signal());
            self.end_with(end);
        }
    }

    /// Requests a stop like [`SetWriter::request_stop`]; returns None without `SHMEM_FT_STORE`.
    fn request_stop(&mut self, who: Option<u32>) -> Option<bool> {
        let (_, agreed) = self.machine.not_due();
        let disk = self.disk.as_mut()?;
        Some(disk.request_stop(who, agreed, &mut self.nodes, &mut self.events))
    }

    /// Passes signals on to PEs.
    fn pass_on_signals(&mut self) {
        while let Some(signal) = self.end.passed() {
            self.events.news(&format!(
                "{} is passed on to every PE",
                raidshmem_core::signals::name(signal)
            ));
            self.nodes.send_to_all(&Down::Signal { signal });
        }
    }

    // ---- membership ---------------------------------------------------------------------------

    fn handle(&mut self, event: MembershipEvent) {
        let actions = self.machine.handle(event);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node, mut message } => {
                    match &mut message {
                        Down::Assign { assignment, .. } => assignment.past = self.events.past(),
                        Down::MakeMemory { pe, pages, .. } => *pages = self.pages.of(*pe),
                        Down::Ask { node, at } => *at = self.detection.address(*node),
                        _ => {}
                    }
                    self.nodes.send(node, &message, &[]);
                }
                Action::Wipe { pe, memory } => self.cleanup.wipe(pe, memory),
                Action::KillNode { node } => self.nodes.kill(node),
                Action::Say(line) => self.events.tell(Tone::Loss, &line),
                Action::Lost { pes, node, how, drained } => {
                    self.schedule(DiskEvent::Lost);
                    let cause = match node {
                        Some(node) if drained => format!("left node {node}, which is drained"),
                        Some(node) => format!("was lost with node {node}"),
                        None if drained => "moves to another node".to_owned(),
                        None => how.to_string(),
                    };
                    info!("lost: {} ({cause})", Pe::names(&pes));
                    self.events.happened(What::Lost { pes, node, cause, drained });
                }
                Action::Drained { node, checkpoint, pes, to, repeats } => {
                    self.events.happened(What::Drained { node, checkpoint, pes, to, repeats });
                }
                Action::Moved { node, checkpoint, pes, to, repeats } => {
                    self.events.happened(What::Moved { node, checkpoint, pes, to, repeats });
                }
                Action::GiveUp { why } => self.give_up_memory(&why),
                Action::ChooseSet { home } => self.choose_set(home),
                Action::Survives(survival) => self.events.survives(survival),
                Action::Rest { pe, ms } => self.rests.add(pe, ms),
                Action::Tell(report) => {
                    self.status.regroup(self.machine.group_of());
                    self.schedule(DiskEvent::Report(&report));
                    self.events.happened(report.into());
                }
                Action::End { status, words } => {
                    words.iter().for_each(|words| self.events.print_verdict(words));
                    self.advise(status);
                    self.end.decide(status);
                }
            }
        }
        self.events.see(self.machine.view(), self.machine.has_started());
    }

    /// Says how to continue a job that ends with `status`, if a set is on disk.
    fn advise(&mut self, status: i32) {
        let falling = self.falling.as_ref().filter(|_| self.machine.can_fall());
        let advice = falling.filter(|_| [UNRECOVERABLE, REQUEUE].contains(&status));
        if let Some(line) = advice.map(FallBack::advice) {
            self.events.error(&line);
        }
    }

    /// Passes an event to the writer of checkpoints on disk.
    fn schedule(&mut self, event: DiskEvent) {
        let Some(disk) = &mut self.disk else { return };
        let places = (self.machine.view(), self.machine.places(), &self.pages);
        let status = disk.handle(event, places, &mut self.nodes, &mut self.events);
        status.into_iter().for_each(|status| _ = self.end.propose(status));
        if disk.take_stored() {
            self.handle(MembershipEvent::SetStored);
        }
    }
}
