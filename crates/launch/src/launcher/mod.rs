//! The launcher: carries out the decisions of [`raidshmem_core::membership`], and prints messages.
//!
//! If nodes map each other, it holds a descriptor of every PE's memory, so that it can wipe a lost
//! node's memory before anything is rebuilt, and a pidfd of every process, so that a node declared
//! lost is certainly dead. Both disappear with the launcher. Orphans (the PEs of a killed agent,
//! children of a program) become the launcher's children, and it kills and reaps them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_control::trace;
use raidshmem_core::detector::{Observation, Timing};
use raidshmem_core::ended::Ended;
use raidshmem_core::layout::Layout;
use raidshmem_core::membership::{Action, Membership, MembershipEvent, Shape};
use raidshmem_core::message::{Down, Party, PeMessage, ProcId, Up};
use raidshmem_core::quantity::Pe;
use raidshmem_core::secret::Secret;
use raidshmem_core::settings::Fabric;
use raidshmem_core::stall::Stalls;
use raidshmem_sys::process::{self, Process};
use raidshmem_sys::socket::ChannelError;
use tracing::info;

use super::cli::ready::Ready;
use super::handshake::ALL_DEAD;
use super::heartbeats::Heartbeats;
use super::lines::{Writer, show};
use super::worker::Worker;
use raidshmem_report::event::What;
use raidshmem_sys::memory::Part;

/// Time limit for the last lines of a node's programs.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Time limit for the other PEs to report an agreed error that one PE has reported.
const VERDICT_TIME: Duration = Duration::from_secs(5);

mod backoff;
mod choosing;
mod decisions;
mod detection;
mod disk;
mod dumping;
mod dumps;
mod ending;
mod error;
mod event_bus;
mod gather;
mod input;
mod job;
mod listener;
mod lost;
mod metrics;
mod placement;
mod poll_token;
mod report;
mod signals;
mod standing;
mod statistics;
mod status;
mod storing;
mod teardown;
mod waiting;

use backoff::RestartBackoff;
use detection::Detection;
use dumps::Dumps;
pub use error::LaunchError;
use event_bus::EventBus;
use gather::Node;
use job::{configure, job_id, job_of, record_of, title};
use listener::Listener;
use placement::PlacementReport;
use poll_token::{PollToken, Waiting};
use report::{signalled, timed_out};
use signals::Signals;
use status::Title;
use teardown::{NodeTeardown, WorkerDone};

struct Launcher {
    machine: Membership,
    nodes: BTreeMap<u32, Node>,
    /// Lost nodes that may still have processes.
    leaving: BTreeMap<u32, NodeTeardown>,
    /// The descriptors that this loop waits for.
    waiting: Waiting,
    /// Does work for which this loop must not block.
    worker: Worker<WorkerDone>,
    /// The listener for other hosts' agents; by now it rejects every connection.
    listener: Option<Listener>,
    /// The memory files of nodes that map each other.
    files: BTreeMap<u32, Arc<OwnedFd>>,
    /// Bytes of a PE's memory in one of these files.
    total: usize,
    memories: BTreeMap<(Pe, u32), Part>,
    procs: BTreeMap<ProcId, (u32, Process)>,
    telling: EventBus,
    /// The time limit of the job.
    timeout: Option<Duration>,
    result: Option<i32>,
    signals: Signals,
    /// True once a signal arrived: the launcher then waits for no slow reader.
    hurried: bool,
    last_words: Option<Instant>,
    /// The placement, while bindings of some nodes are missing; None once it is printed.
    placement: Option<PlacementReport>,
    detection: Detection,
    stalls: Stalls,
    rests: RestartBackoff,
    dumps: Dumps,
    /// The standard input, if it is sent to another host.
    input: Option<input::Sent>,
    title: Title,
    /// The time of the next redraw of the terminal view, if there is one.
    view: Option<Instant>,
    /// The writer of checkpoints on disk, if these are enabled.
    disk: Option<disk::SetWriter>,
    /// True if PEs are on several hosts without a fabric between them.
    no_fabric_between_hosts: bool,
}

/// Runs a job to its end and returns its exit status.
pub fn run(mut ready: Ready, build: &'static str) -> Result<i32, LaunchError> {
    let readers = std::mem::take(&mut ready.readers);
    let system = |what| move |error| LaunchError::System { what, error };
    trace::begin_own();
    process::adopt_orphans().map_err(system("adopting orphans"))?;
    let signals = Signals::catch(ready.stop_signal).map_err(system("signals"))?;
    let lines = Writer::begin().map_err(system("thread for lines"))?;
    let (mut nodes, listener) = gather::all(&mut ready, &signals, build)?;
    choosing::find_set(&mut ready, &mut nodes, &signals)?;
    let ready = &ready;
    let (shape, settings) = (&ready.shape, &ready.settings);
    placement::say_what_is_survived(ready);
    let job = job_of(ready, job_id().map_err(system("random number of the job"))?);
    let timing = Timing { period: settings.period(), limit: settings.node_timeout };
    let (net, heartbeats) = listener.as_ref().map(listen_to_heartbeats).transpose()?.unzip();
    configure(&mut nodes, ready, &job, net.as_ref())?;
    let remotes = nodes.iter().filter_map(|(&node, n)| Some((node, n.remote.as_ref()?.beats)));
    let detection = Detection::new(nodes.keys().copied(), heartbeats, remotes.collect(), timing);
    let starts = ready.starts.clone().unwrap_or_else(|| shape.node_of.clone());
    let begun = Shape { node_of: starts, ..shape.clone() };
    let (mut machine, first) = Membership::new(&begun, settings, ready.protected.site.clone());
    ready.resume.iter().for_each(|resume| machine.resume_from(resume.number));
    if ready.cluster.is_some() {
        machine.let_nodes_be_asked();
    }
    let several = shape.node_of.iter().any(|node| *node != shape.node_of[0]);
    let mut launcher = Launcher {
        machine,
        nodes,
        leaving: BTreeMap::new(),
        waiting: Waiting::default(),
        worker: Worker::new().map_err(system("thread for long work"))?,
        listener,
        files: BTreeMap::new(),
        total: Layout::new(job.heap_len as usize, job.n_pes as usize).total,
        memories: BTreeMap::new(),
        procs: BTreeMap::new(),
        telling: EventBus::new(settings, record_of(ready), readers)
            .map_err(system("thread for events"))?,
        timeout: ready.timeout,
        result: None,
        signals,
        hurried: false,
        last_words: None,
        placement: ready.report_placement.then(|| PlacementReport::new(ready)),
        detection,
        stalls: Stalls::new(settings.stall),
        rests: RestartBackoff::default(),
        dumps: Dumps::new(),
        input: input::send(ready).map_err(system("standard input"))?,
        title: title(ready),
        view: ready.live.then(Instant::now),
        disk: disk::SetWriter::new(ready, &job),
        no_fabric_between_hosts: ready.cluster.is_some() && shape.fabric == Fabric::Shm && several,
    };
    launcher.begin_watch();
    launcher.act(first);
    let status = launcher.serve();
    launcher.shut_down();
    show(None);
    launcher.telling.sum_up(launcher.machine.not_due());
    let limit = launcher.hurried.then_some(LAST_LINES);
    launcher.telling.end(status, limit, launcher.signals.fds());
    lines.finish(limit, launcher.signals.fds());
    Ok(status)
}

/// Returns the secret and the port for the agents' heartbeats, and the socket that receives these.
fn listen_to_heartbeats(listener: &Listener) -> Result<((Secret, u16), Heartbeats), LaunchError> {
    let system = |what| move |error| LaunchError::System { what, error };
    let key = gather::secret().map_err(system("random secret of the job"))?;
    let socket = listener.datagrams().map_err(system("socket for heartbeats"))?;
    let port = socket.local_addr().map_err(system("socket for heartbeats"))?.port();
    let heartbeats = Heartbeats::new(socket, Party::Launcher, &key);
    Ok(((key, port), heartbeats))
}

impl Launcher {
    fn serve(&mut self) -> i32 {
        loop {
            if let Some(status) = self.result {
                return status;
            }
            self.pass_on_signals();
            for source in self.wait() {
                match source {
                    PollToken::Channel(node) => self.listen(node),
                    PollToken::End(node) => self.starter_ended(node),
                    PollToken::Word(node) => self.supervisor_spoke(node),
                    PollToken::Worker => self.hear_worker(),
                    PollToken::Nodes | PollToken::Other => {}
                }
                if self.result.is_some() {
                    break; // the job is over; further messages do not matter
                }
            }
            if let Some(signal) = self.stopped_by_signal() {
                self.hurried = true;
                return self.ends(signalled(signal));
            }
            if let Some(limit) = self.timeout.filter(|limit| self.telling.now() >= *limit) {
                return self.ends(timed_out(limit));
            }
            self.reject_late_nodes();
            self.hear_datagrams();
            self.look_at_clock();
            self.report_late();
            self.serve_dumps();
            self.send_input();
            self.draw_view();
            for pe in self.rests.over() {
                let actions = self.machine.handle(MembershipEvent::Rested { pe });
                self.act(actions);
            }
            if self.machine.unrecoverable() && self.result.is_none() {
                let end = *self.last_words.get_or_insert_with(|| Instant::now() + VERDICT_TIME);
                if Instant::now() >= end {
                    let actions = self.machine.cut_short();
                    self.act(actions);
                }
            }
        }
    }

    /// Sends pending standard input to the node of PE 0.
    pub(super) fn send_input(&mut self) {
        let node = self.machine.view().pes[0].node;
        while let Some(bytes) = self.input.as_mut().and_then(|input| input.next(node)) {
            self.send(node, &Down::Input { bytes }, &[]);
        }
    }

    /// Handles the agent's acknowledgement that it has written `bytes` of input to PE 0's pipe.
    pub(super) fn input_taken(&mut self, node: u32, bytes: u32) {
        if self.input.as_mut().is_some_and(|input| !input.acknowledge(node, bytes)) {
            self.telling.error(&format!("node {node} acknowledges input that it was not sent"));
        }
    }

    /// Rejects connections that arrive after all nodes have joined.
    fn reject_late_nodes(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        for accepted in listener.serve() {
            let node = accepted.hello.node;
            let is_here = self.nodes.contains_key(&node) && !self.leaving.contains_key(&node);
            let why = match is_here {
                true => format!("node {node} is connected already"),
                false => format!("node {node} was declared lost, and is not readmitted"),
            };
            listener.reject(accepted, &why);
        }
    }

    fn listen(&mut self, node: u32) {
        loop {
            let Some(entry) = self.nodes.get_mut(&node) else { return };
            let Some(link) = &mut entry.link else { return };
            let _ = link.flush(); // a dead node is detected by its end
            match link.try_receive::<Up>() {
                Ok(Some((message, fds))) => self.heard(node, message, fds),
                Ok(None) => return,
                Err(ChannelError::Closed) => return self.disconnected(node),
                Err(error) => {
                    self.telling.error(&format!("{}: {error}", entry.name));
                    return self.disconnected(node);
                }
            }
            if self.result.is_some() {
                return;
            }
        }
    }

    fn heard(&mut self, node: u32, message: Up, mut fds: Vec<OwnedFd>) {
        dumps::note(node, &message);
        let event = match message {
            Up::Memory { pe, memory } => {
                if let Some(file) = self.files.get(&node) {
                    let part = Part::new(Arc::clone(file), pe.at() * self.total, self.total);
                    self.memories.insert((pe, memory), part);
                }
                MembershipEvent::MemoryMade { pe, memory }
            }
            Up::Disk(outcome) => return self.heard_of_disk(node, outcome),
            Up::Held(_) | Up::Checked(_) => return, // answers to questions before the start
            Up::Bound(bound) => {
                fds.pop().into_iter().for_each(|file| self.share(node, Arc::new(file)));
                self.placement = self.placement.take().and_then(|report| report.hear(bound));
                return;
            }
            Up::Started { proc, pid } => {
                if let Some(fd) = fds.pop() {
                    self.procs.insert(proc, (node, Process::received(pid, fd)));
                }
                return;
            }
            Up::Message { what: PeMessage::Hello, .. } if self.no_fabric_between_hosts => {
                let words = "--fabric shm: PEs on different hosts cannot reach each other; \
                             expected a fabric between hosts";
                // Every PE sends Hello before its agent learns of the end; one line is enough.
                if self.result.replace(2).is_none() {
                    self.telling.say_verdict(words);
                }
                return;
            }
            Up::Message { proc, what } => {
                if let PeMessage::Verdict { words, .. } = &what {
                    self.telling.say_verdict(words);
                }
                MembershipEvent::Message { proc, what }
            }
            Up::Ended { proc, how } => {
                self.procs.remove(&proc);
                MembershipEvent::Ended { proc, how }
            }
            Up::Beat(beat) => return self.heartbeat(node, beat),
            Up::Accuse { node: about, silent: true } => {
                return self.observed(about, Observation::Accused { by: node });
            }
            Up::Accuse { node: about, silent: false } => {
                return self.observed(about, Observation::Withdrawn { by: node });
            }
            Up::GiveUp { node: about, term, silent } => {
                return self.observed(about, Observation::GivenUp { by: node, term, silent });
            }
            Up::Opinion { node: about, alive } => {
                self.observed(about, Observation::Opinion { by: node, alive });
                MembershipEvent::Opinion { by: node, about, alive }
            }
            Up::Looked { proc } => MembershipEvent::Looked { proc },
            Up::Waits { waits, stopped } => return self.heard_of_waits(node, waits, stopped),
            Up::Dump(answer) => return self.answered(node, answer),
            Up::Last { events } => return self.telling.last_of(events),
            Up::Note { line } => return self.telling.news(&line),
            Up::InputTaken { bytes } => return self.input_taken(node, bytes),
            Up::Shown { number } => MembershipEvent::Shown { node, number },
            Up::StopSignal => return self.stop_signal_at(node),
            Up::Failed { what } => return self.failed(node, &what),
        };
        let actions = self.machine.handle(event);
        self.act(actions);
    }

    /// Handles a lost connection: the node ends itself, and its end is detected.
    fn disconnected(&mut self, node: u32) {
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        entry.link = None;
        self.observed(node, Observation::Disconnected);
    }

    /// Handles the last word of a node's supervisor, which proves that no process is left there, or
    /// EOF on the supervisor's output.
    fn supervisor_spoke(&mut self, node: u32) {
        let remote = self.nodes.get_mut(&node).and_then(|entry| entry.remote.as_mut());
        let Some(remote) = remote else { return };
        remote.word = None;
        if remote.gate.has_heard() {
            self.observed(node, Observation::Dead);
        }
    }

    /// Handles the end of a local agent, or of the command that started a remote one. The status
    /// may be the supervisor's or the command's own.
    fn starter_ended(&mut self, node: u32) {
        if self.leaving.contains_key(&node) {
            return self.see_off(node);
        }
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        entry.started_over = true;
        self.waiting.renew();
        if entry.remote.is_none() || entry.process.reap() == Some(Ended::Exited(ALL_DEAD)) {
            return self.observed(node, Observation::Dead);
        }
        self.observed(node, Observation::Disconnected);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { node, mut message } => {
                    match &mut message {
                        Down::Assign { assignment, .. } => assignment.past = self.telling.past(),
                        Down::Ask { node, at } => *at = self.detection.addresses.get(node).copied(),
                        _ => {}
                    }
                    self.send(node, &message, &[]);
                }
                Action::Wipe { pe, memory } => self.wipe(pe, memory),
                Action::KillNode { node } => {
                    if let Some(entry) = self.nodes.get_mut(&node) {
                        entry.ordered = true;
                        match (&entry.remote, &entry.link) {
                            (Some(_), Some(_)) => self.send(node, &Down::Die, &[]),
                            _ => entry.process.kill(),
                        }
                    }
                }
                Action::Say(line) => self.telling.news(&line),
                Action::Lost { pes, node, how } => {
                    self.interrupt_disk();
                    let cause = match node {
                        Some(node) => format!("was lost with node {node}"),
                        None => how.to_string(),
                    };
                    info!("lost: {} ({cause})", Pe::names(&pes));
                    self.telling.happened(What::Lost { pes, node, cause });
                }
                Action::Survives(survival) => self.telling.survives(survival),
                Action::Rest { pe, ms } => self.rests.add(pe, ms),
                Action::Tell(report) => {
                    self.title.group_of = self.machine.group_of().to_vec();
                    self.note_for_disk(&report);
                    self.telling.happened(report.into());
                }
                Action::End { status, words } => {
                    words.iter().for_each(|words| self.telling.say_verdict(words));
                    self.result = Some(status);
                }
            }
        }
        self.telling.see(self.machine.view(), self.machine.has_started());
    }
}
