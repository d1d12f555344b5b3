//! The agent of a node: starts PEs, holds their memory, watches them, publishes the view to them.
//!
//! The agent decides nothing. It carries out orders and reports events in the order in which they
//! happened. It forwards the last messages of a process before it reports the process's end.
//!
//! On another host, its supervisor first sends it the launcher to join. There it forwards the
//! output of its PEs in whole lines, and sends no descriptors to the launcher.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raidshmem_control::link::{Link, timespec};
use raidshmem_control::page::Page;
use raidshmem_control::trace;
use raidshmem_core::detector::MachineTime;
use raidshmem_core::ended::Ended;
use raidshmem_core::message::{Down, Job, Party, ProcId, Up};
use raidshmem_core::settings::Fabric;
use raidshmem_sys::socket::{Channel, ChannelError};
use rustix::event::{PollFd, PollFlags, poll};

use super::handshake::JoinError;
use super::heartbeats::Heartbeats;
use super::output;
use super::worker::Worker;

mod begin;
mod binder;
mod disk;
mod done;
mod heartbeat;
mod input;
mod join;
mod lists;
mod local;
mod looks;
mod memory;
mod orders;
mod processes;
mod reach;
mod signals;
mod source;
mod starting;
mod storing;
mod uplink;
mod watch;

use begin::Held;
use binder::Binder;
use disk::DiskThread;
use done::AgentDone;
use heartbeat::{HeartbeatClient, Ties};
use input::InputPipe;
use memory::NodeMemory;
use processes::LocalProcesses;
use reach::Reach;
use source::Source;
use starting::Starter;
use uplink::{Order, Uplink};
use watch::PeWatch;

/// The parts of an agent. It passes each event and order on to the part that it concerns.
struct Agent {
    node: u32,
    job: Job,
    up: Uplink,
    /// Orders not yet carried out.
    orders: VecDeque<Order>,
    /// The control page that PEs read.
    page: Page,
    page_fd: Arc<OwnedFd>,
    binder: Arc<Binder>,
    /// A thread for long work.
    worker: Worker<AgentDone>,
    memory: NodeMemory,
    reach: Reach,
    starter: Starter,
    procs: LocalProcesses,
    /// PE 0's standard input.
    input: InputPipe,
    heartbeat: HeartbeatClient,
    watch: PeWatch,
    disk: DiskThread,
}

/// Time limit for the first orders, which includes the start of the other agents.
const ORDERS: Duration = Duration::from_secs(120);
/// The number of events reported of a PE whose process died.
const LAST_EVENTS: usize = 4;
/// Time limit for programs' last lines.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Time limit for jobs in progress when the agent ends.
const LAST_JOB: Duration = Duration::from_secs(5);

/// Runs a node's agent, of this build, on its connection to the launcher. Returns when ordered to,
/// or when the launcher is gone; every process it started is dead by then.
pub fn run(channel: Channel, build: &'static str) -> Result<(), JoinError> {
    trace::begin_own();
    let mut up = Link::pair(channel);
    let (mut first, mut joined) = (up.receive::<Down>(ORDERS)?, None);
    if let Some((Down::Join { launcher, node, secret }, _)) = first {
        let (mut link, socket) = join::join(launcher, node, &secret, build)?;
        first = link.receive::<Down>(ORDERS)?;
        up = link; // the supervisor sends nothing more
        joined = Some((socket, launcher));
    }
    first = lists::answer(&mut up, first)?;
    let (job, settings, node, program, place, net, stop_signal) = match first {
        Some((Down::Configure { job, settings, node, program, place, net, stop_signal }, _)) => {
            (*job, *settings, node, program, place, net, stop_signal)
        }
        Some((Down::Refused { why }, _)) => return Err(JoinError::Refused(why)),
        Some((Down::Shutdown, _)) => return Ok(()),
        Some(_) => return Err(ChannelError::Malformed(0).into()),
        None => return Err(JoinError::NoOrders),
    };
    if !job.is_sound() || program.is_empty() {
        return Err(ChannelError::Malformed(0).into());
    }
    let ties = joined.zip(net.as_ref()).map(|((socket, mut launcher), (key, port))| {
        launcher.set_port(*port);
        Ties { net: Heartbeats::new(socket, Party::Node(node), key), launcher }
    });
    let limit = settings.node_timeout;
    up.give_up_after(limit * 5 / 4);
    let heartbeat = HeartbeatClient::new(node, job.fabric, &settings, ties);
    let pairs = up.carries_descriptors();
    let begun = begin::begin(&job, &settings, node, pairs, &place);
    let Held { page, page_fd, file, worker } = match begun {
        Ok(held) => held,
        Err(what) => return Ok(up.send(&Up::Failed { what }, &[])?),
    };
    let binder = Arc::new(Binder::new(&job, settings.bind, node));
    let shared = (pairs && job.fabric == Fabric::Shm).then(|| Arc::clone(&file));
    let mut up = Uplink::new(up);
    up.send_with(&Up::Bound(binder.bindings()), shared.as_slice())?;
    let mut agent = Agent {
        node,
        up,
        orders: VecDeque::new(),
        page,
        page_fd,
        worker,
        memory: NodeMemory::new(&job, node, Arc::clone(&file), Arc::clone(&binder)),
        reach: Reach::new(node, file),
        procs: LocalProcesses::new(build),
        input: InputPipe::new(place.input),
        watch: PeWatch::new(&settings, heartbeat.now()),
        heartbeat,
        disk: DiskThread::new(&job, stop_signal),
        starter: Starter::new(&job, program, place, settings, Arc::clone(&binder)),
        binder,
        job,
    };
    agent.serve_to_the_end(limit)
}

impl Agent {
    /// Serves until ordered to end, or until the lease, of duration `limit`, expires.
    fn serve_to_the_end(&mut self, limit: Duration) -> Result<(), JoinError> {
        let (result, ended) = (self.serve(), self.kill_all());
        if ended && matches!(result, Ok(false)) {
            self.heartbeat.report_gone(&mut self.up);
        }
        // While the lease holds, wait for a slow reader; once it expires, leave nothing here.
        let is_patient = || matches!(result, Ok(true)) && output::is_held_up();
        self.starter.finish_output(LAST_LINES, is_patient);
        match result {
            Ok(true) => Ok(()),
            Ok(false) => Err(JoinError::Fenced { node: self.node, limit: limit.as_secs_f64() }),
            Err(ChannelError::Closed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true when ordered to end, false when the lease expires.
    fn serve(&mut self) -> Result<bool, ChannelError> {
        // Orders received together with the first do not wake a poll.
        let mut over = self.receive_orders()?;
        while !over {
            let ready = self.wait();
            if !self.check_clocks()? {
                return Ok(false);
            }
            for source in ready {
                match source {
                    Source::Launcher => over = over || self.receive_orders()?,
                    Source::Datagram => self.heartbeat.receive(&mut self.up)?,
                    Source::Channel(proc) => self.listen(proc)?,
                    Source::End(proc) => self.ended(proc)?,
                    Source::Input => self.input.write(&mut self.up)?,
                    Source::Worker => self.finish_work()?,
                    Source::Disk => self.disk.report_outcomes(&mut self.up)?,
                    Source::StopSignal => self.disk.report_stop_signal(&mut self.up)?,
                }
            }
            self.carry_out()?;
        }
        Ok(true)
    }

    fn wait(&self) -> Vec<Source> {
        let own = [
            (self.up.fd(), Source::Launcher),
            (PollFd::new(&self.worker, PollFlags::IN), Source::Worker),
        ];
        let net = self.heartbeat.fd().map(|fd| (fd, Source::Datagram));
        let input = self.input.fd().map(|fd| (fd, Source::Input));
        let all = own.into_iter().chain(self.disk.fds()).chain(net).chain(input);
        let (mut fds, sources): (Vec<_>, Vec<_>) = all.chain(self.procs.fds()).unzip();
        let left = if self.orders.is_empty() { self.left() } else { Duration::ZERO };
        let _ = poll(&mut fds, Some(&timespec(left)));
        let ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>();
        sources.into_iter().zip(ready).filter_map(|(s, ready)| ready.then_some(s)).collect()
    }

    /// Returns the time until [`Agent::check_clocks`] is due.
    fn left(&self) -> Duration {
        let others = self.procs.next().into_iter().chain(self.watch.next());
        let first = others.fold(self.heartbeat.next(), MachineTime::min);
        first.saturating_sub(self.heartbeat.now())
    }

    /// Runs due actions, before pending messages are handled. Returns false if the lease has
    /// expired.
    fn check_clocks(&mut self) -> Result<bool, ChannelError> {
        let time = self.heartbeat.now();
        if !self.heartbeat.tick(time, &mut self.up)? {
            return Ok(false);
        }
        self.watch.check_stopped(time, &self.procs, &mut self.up)?;
        self.watch.check_waits(time, &self.procs, &mut self.up)?;
        self.disk.check(time, &mut self.up)?;
        self.procs.kill_late(time, &mut self.up)?;
        Ok(true)
    }

    /// Passes on the messages of a process.
    fn listen(&mut self, proc: ProcId) -> Result<(), ChannelError> {
        self.procs.listen(proc, self.heartbeat.now(), &mut self.up)
    }

    /// Handles the end of a process, after its last messages.
    fn ended(&mut self, proc: ProcId) -> Result<(), ChannelError> {
        self.listen(proc)?;
        let Some((pe, how)) = self.procs.reap(proc, self.heartbeat.now()) else { return Ok(()) };
        if let Some(pe) = pe.filter(|_| matches!(how, Ended::Killed(_))) {
            let events = self.memory.events_of(pe, LAST_EVENTS);
            self.up.send(&Up::Last { events })?;
        }
        self.up.send(&Up::Ended { proc, how })
    }

    /// Handles the worker's results.
    fn finish_work(&mut self) -> Result<(), ChannelError> {
        for done in self.worker.results() {
            match done {
                AgentDone::Made { pe, memory, result: Ok(()) } => {
                    self.up.send(&Up::Memory { pe, memory })?;
                }
                AgentDone::Made { pe, result: Err(error), .. } => {
                    self.up.fail(format!("memory for PE {pe}: {error}"))?;
                }
                AgentDone::Started(started) => {
                    let missed = self.starter.missed(started.begun);
                    self.procs.add(*started, missed, &mut self.up)?;
                }
                AgentDone::Wiped => {}
            }
        }
        if self.worker.is_idle() {
            self.starter.forget_signals();
        }
        Ok(())
    }

    /// Starts no further processes. Returns true if the outcome of every start is known.
    fn stop_worker(&mut self) -> bool {
        self.worker.stop();
        let end = Instant::now() + LAST_JOB;
        while self.worker.waits_until(end) {
            let _ = self.finish_work(); // a process that cannot be reported is killed too
        }
        self.worker.is_idle()
    }

    /// Kills every process. Returns true if all are known to have ended.
    fn kill_all(&mut self) -> bool {
        self.procs.wait_for_aborted();
        self.procs.kill_all();
        let is_known = self.stop_worker();
        self.procs.kill_all(); // processes whose start was in progress
        let ended = self.procs.wait_ends() && is_known;
        self.disk.end(&self.memory);
        if ended {
            self.heartbeat.rest();
        }
        ended
    }
}

#[cfg(test)]
mod tests;
