//! The agent of a node: starts PEs, holds their memory, watches them, publishes the view to them.
//!
//! The agent decides nothing. It carries out orders and reports events in the order in which they
//! happened. It forwards the last messages of a process before it reports the process's end.
//!
//! On another host, its supervisor first sends it the launcher to join. There it forwards the
//! output of its PEs in whole lines, and sends no descriptors to the launcher.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use raidshmem_control::link::{Link, timespec};
use raidshmem_control::page::Page;
use raidshmem_control::trace;
use raidshmem_core::detector::MachineTime;
use raidshmem_core::ended::Ended;
use raidshmem_core::message::{Down, Job, Party, PeMessage, ProcId, ProcessOptions, ToPe, Up};
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::{Fabric, Settings};
use raidshmem_core::view::View;
use raidshmem_segment::words::Words;
use raidshmem_sys::futex;
use raidshmem_sys::memory::Mapping;
use raidshmem_sys::process::Process;
use raidshmem_sys::socket::{Channel, ChannelError, Outbox};
use rustix::event::{PollFd, PollFlags, poll};
use tracing::info;

use super::handshake::JoinError;
use super::heartbeats::Heartbeats;
use super::output::{self, Carriers, Sink};
use super::worker::Worker;

mod abort;
mod begin;
mod binder;
mod clock;
mod disk;
mod done;
mod dump;
mod giving;
mod heartbeat;
mod input;
mod join;
mod lists;
mod looks;
mod meet;
mod orders;
mod signals;
mod starting;
mod storing;
mod waits;
mod work;

use begin::Held;
use binder::Binder;
use done::AgentDone;
use heartbeat::{HeartbeatClient, Ties};

/// An order and the descriptors that came with it.
type Order = (Down, Vec<OwnedFd>);

struct Local {
    process: Process,
    /// The process that sent Hello, if it is not the started one but a script's child.
    inner: Option<Process>,
    channel: Option<Outbox>,
    /// True if its library is of this build.
    same_build: bool,
    /// Parent-death pipe: a process that armed the other end, even a script's child, is killed with
    /// this agent.
    _parent_death: OwnedFd,
    /// True if it was started for its PE number, and bound then; the program may have changed that.
    meant: bool,
    /// True if it has left `shmem_finalize`: a script around it may go on.
    finalized: bool,
    /// True if it is a PE that closed its connection.
    channel_lost: bool,
    /// The time at which a PE without a control channel, or the script of a dead PE, is killed: the
    /// launcher waits for its PE number.
    until: Option<MachineTime>,
    pe: Option<Pe>,
    /// The destination of its output, if the agent forwards it.
    sink: Option<Arc<Sink>>,
    control: Option<Mapping>,
}

impl Local {
    /// Returns the control words of the PE that it carries.
    fn words(&self) -> Option<&Words> {
        // SAFETY: the mapping is a whole page and begins with the segment's control words, which
        // every process touches through atomics only.
        self.control.as_ref().map(|control| unsafe { &*control.base().cast::<Words>() })
    }

    /// Returns the process that is the PE, or will be.
    fn carrier(&self) -> &Process {
        self.inner.as_ref().unwrap_or(&self.process)
    }
}

struct Agent {
    up: Link,
    /// Orders not yet carried out.
    orders: VecDeque<Order>,
    job: Job,
    settings: Settings,
    node: u32,
    program: Vec<OsString>,
    page: Page,
    page_fd: Arc<OwnedFd>,
    binder: Arc<Binder>,
    /// A thread for long work.
    worker: Worker<AgentDone>,
    /// The memory files of the nodes that may map each other, including its own.
    files: BTreeMap<u32, Arc<OwnedFd>>,
    /// PEs whose memory is on this node.
    here: BTreeSet<Pe>,
    /// Incarnation and address of each PE reached through an engine.
    addresses: BTreeMap<Pe, (Incarnation, Vec<u8>)>,
    procs: BTreeMap<ProcId, Local>,
    /// PE 0's standard input, if PE 0 runs here and the launcher provides it.
    input: Option<input::Pipe>,
    /// The options of programs, and the threads that forward their output.
    place: ProcessOptions,
    carriers: Carriers,
    heartbeat: HeartbeatClient,
    disk: disk::DiskThread,
    missed: signals::Missed,
    /// The build of this oshrun; the programs' library must match it.
    build: &'static str,
}

/// Time limit for the first orders, which includes the start of the other agents.
const ORDERS: Duration = Duration::from_secs(120);
/// The number of events reported of a PE whose process died.
const LAST_EVENTS: usize = 4;
/// Time limit for programs' last lines.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Time limit for a script whose PE died, or a PE without a connection, to end.
const SCRIPT: Duration = Duration::from_millis(500);

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
    let (orders, here, addresses, procs, carriers) = Default::default();
    let binder = Arc::new(Binder::new(&job, settings.bind, node));
    let shared = (pairs && job.fabric == Fabric::Shm).then(|| Arc::clone(&file));
    up.send(&Up::Bound(binder.bindings()), shared.as_slice())?;
    let files = BTreeMap::from([(node, file)]);
    let mut agent = Agent {
        up,
        orders,
        job,
        settings,
        node,
        program: program.into_iter().map(OsString::from_vec).collect(),
        page,
        page_fd,
        binder,
        worker,
        files,
        here,
        addresses,
        procs,
        input: None,
        place,
        carriers,
        heartbeat,
        disk: disk::DiskThread::new(stop_signal),
        missed: signals::Missed::default(),
        build,
    };
    agent.serve_to_the_end(limit)
}

enum Source {
    Launcher,
    Datagram,
    Channel(ProcId),
    End(ProcId),
    Input,
    Worker,
    Disk,
    StopSignal,
}

impl Agent {
    /// Serves until ordered to end, or until the lease, of duration `limit`, expires.
    fn serve_to_the_end(&mut self, limit: Duration) -> Result<(), JoinError> {
        let (result, ended) = (self.serve(), self.kill_all());
        if ended && matches!(result, Ok(false)) {
            self.say_gone();
        }
        // While the lease holds, wait for a slow reader; once it expires, leave nothing here.
        self.carriers.finish(LAST_LINES, || matches!(result, Ok(true)) && output::is_held_up());
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
        let mut over = self.hear_orders()?;
        while !over {
            let ready = self.wait();
            if !self.look_at_clock()? {
                return Ok(false);
            }
            for source in ready {
                match source {
                    Source::Launcher => over = over || self.hear_orders()?,
                    Source::Datagram => self.hear_datagrams()?,
                    Source::Channel(proc) => self.listen(proc)?,
                    Source::End(proc) => self.ended(proc)?,
                    Source::Input => self.write_input()?,
                    Source::Worker => self.hear_worker()?,
                    Source::Disk => self.hear_disk()?,
                    Source::StopSignal => self.hear_stop_signal()?,
                }
            }
            self.carry_out()?;
        }
        Ok(true)
    }

    fn wait(&self) -> Vec<Source> {
        let own = [(PollFd::new(&self.up, self.up.interest()), Source::Launcher)];
        let worker = (PollFd::new(&self.worker, PollFlags::IN), Source::Worker);
        let (mut fds, mut sources): (Vec<_>, Vec<_>) = own.into_iter().chain([worker]).unzip();
        if let Some(disk) = &self.disk.worker {
            fds.push(PollFd::new(disk, PollFlags::IN));
            sources.push(Source::Disk);
        }
        if let Some(bell) = &self.disk.bell {
            fds.push(PollFd::new(bell, PollFlags::IN));
            sources.push(Source::StopSignal);
        }
        if let Some(net) = &self.heartbeat.net {
            fds.push(PollFd::new(net, PollFlags::IN));
            sources.push(Source::Datagram);
        }
        if let Some(full) = self.input.as_ref().and_then(input::Pipe::full) {
            fds.push(PollFd::new(full, PollFlags::OUT));
            sources.push(Source::Input);
        }
        for (&proc, local) in &self.procs {
            if let Some(channel) = &local.channel {
                fds.push(PollFd::new(channel, channel.interest()));
                sources.push(Source::Channel(proc));
            }
            fds.push(PollFd::new(&local.process, PollFlags::IN));
            sources.push(Source::End(proc));
            if let Some(inner) = &local.inner {
                fds.push(PollFd::new(inner, PollFlags::IN));
                sources.push(Source::End(proc));
            }
        }
        let left = if self.orders.is_empty() { self.left() } else { Duration::ZERO };
        let _ = poll(&mut fds, Some(&timespec(left)));
        let ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>();
        sources.into_iter().zip(ready).filter_map(|(s, ready)| ready.then_some(s)).collect()
    }

    fn execute(&mut self, message: Down, mut fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        match message {
            Down::Join { .. } | Down::Configure { .. } | Down::Refused { .. } => Ok(()),
            Down::List { .. }
            | Down::Check { .. }
            | Down::Beat(_)
            | Down::Ask { .. }
            | Down::Watch { .. } => Ok(()),
            Down::Parent { .. } | Down::Adopt { .. } | Down::Release { .. } => Ok(()),
            Down::Abort | Down::Shutdown | Down::Die => Ok(()),
            Down::MakeMemory { pe, memory } => {
                self.make_memory(pe, memory);
                Ok(())
            }
            Down::Start { proc, pe } => self.start(proc, pe),
            Down::Assign { proc, assignment } => self.assign(proc, assignment),
            Down::File { node } => {
                let Some(file) = fds.pop() else { return Err(ChannelError::Malformed(0)) };
                self.keep(node, file)
            }
            Down::Address { pe, incarnation, address } => {
                let told = ToPe::Address { pe, incarnation, address: address.clone() };
                self.send_to_all(&told, &[])?;
                self.addresses.insert(pe, (incarnation, address));
                Ok(())
            }
            Down::Show(view) => self.show(&view),
            Down::Dump { question, events } => self.dump(question, events),
            Down::Finish => {
                self.page.finished().store(1, Ordering::SeqCst);
                self.ring_all();
                Ok(())
            }
            Down::PreludesKept => {
                self.page.preludes_kept().store(1, Ordering::SeqCst);
                self.ring_all();
                Ok(())
            }
            Down::Stopping => {
                self.page.stopping().store(1, Ordering::SeqCst);
                Ok(())
            }
            Down::Look { proc } => {
                self.ended(proc)?;
                match self.procs.get(&proc) {
                    // Its end will be reported.
                    Some(local) if local.until.is_some() || local.carrier().is_ending() => Ok(()),
                    _ => self.up.send(&Up::Looked { proc }, &[]),
                }
            }
            Down::Signal { signal } => {
                // Spares do not run the program's code yet: the signal would end them.
                let pes = self.procs.values().filter(|local| local.meant || local.pe.is_some());
                pes.for_each(|local| local.carrier().signal(signal));
                if !self.worker.is_idle() {
                    self.missed.note(Instant::now(), signal);
                }
                Ok(())
            }
            Down::Disk(task) => self.disk(task),
            Down::Input { bytes } => self.hear_input(&bytes),
            Down::Kill { proc } => {
                if let Some(local) = self.procs.get(&proc) {
                    info!("kills process {proc} of {}", Pe::names(local.pe.as_slice()));
                    kill(local);
                }
                Ok(())
            }
        }
    }

    fn fail(&mut self, what: String) -> Result<(), ChannelError> {
        self.up.send(&Up::Failed { what }, &[])
    }

    fn show(&mut self, view: &View) -> Result<(), ChannelError> {
        if self.job.fabric != Fabric::Shm {
            // A PE that moved to another node left unused memory here.
            let stays = |pe: &Pe| view.pes[pe.at()].node == self.node;
            let (stay, left) = std::mem::take(&mut self.here).into_iter().partition(stays);
            self.here = stay;
            BTreeSet::into_iter(left).for_each(|pe| self.wipe(pe));
        }
        if view.pes[0].node != self.node {
            self.input = None; // its substitute elsewhere gets the unread input
        }
        info!("shows view {}", view.number);
        self.page.publish(view);
        self.ring_all();
        self.up.send(&Up::Shown { number: view.number }, &[])
    }

    fn ring_all(&self) {
        for words in self.procs.values().filter_map(Local::words) {
            words.bell.doorbell.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(&words.bell.doorbell);
        }
    }

    fn listen(&mut self, proc: ProcId) -> Result<(), ChannelError> {
        while self.is_same_build(proc)? {
            let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
            let Some(channel) = &mut local.channel else { return Ok(()) };
            let _ = channel.flush(); // if the process ended, its pidfd reports it
            match channel.try_receive_from::<PeMessage>() {
                Ok(Some((what, sender))) => {
                    local.finalized |= matches!(what, PeMessage::Finalized);
                    if let (PeMessage::Hello, Some(pid)) = (&what, sender) {
                        self.meet(proc, pid)?;
                    }
                    self.up.send(&Up::Message { proc, what }, &[])?;
                }
                Ok(None) => return Ok(()),
                Err(_) => {
                    // If the process ended, its pidfd reports it. A PE that runs on without a
                    // connection would hang the job.
                    local.channel = None;
                    if local.pe.is_some() && !local.finalized {
                        (local.channel_lost, local.until) =
                            (true, Some(self.heartbeat.clock.now() + SCRIPT));
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn ended(&mut self, proc: ProcId) -> Result<(), ChannelError> {
        self.listen(proc)?;
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
        if local.inner.as_ref().is_some_and(|inner| inner.wait_end(0)) {
            // The script's end reports the reason.
            (local.inner, local.channel_lost) = (None, false);
            let over = local.finalized && !breaks(Mutant::ScriptEnded);
            local.until = (!over).then(|| self.heartbeat.clock.now() + SCRIPT);
        }
        if !local.process.wait_end(0) {
            return Ok(());
        }
        // The program's children must not outlive it. Its process id cannot be reused until it is
        // reaped.
        local.process.kill_group();
        let Some(how) = local.process.reap() else { return Ok(()) };
        let died = local.pe.filter(|_| matches!(how, Ended::Killed(_)));
        info!("process {proc} of {} {how}", Pe::names(local.pe.as_slice()));
        self.procs.remove(&proc);
        if let Some(pe) = died {
            self.up.send(&Up::Last { events: self.events_of(pe, LAST_EVENTS) }, &[])?;
        }
        self.up.send(&Up::Ended { proc, how }, &[])
    }

    /// Kills every process. Returns true if all are known to have ended.
    fn kill_all(&mut self) -> bool {
        self.wait_for_aborted();
        self.procs.values().for_each(kill);
        let mut ended = self.stop_worker();
        self.procs.values().for_each(kill); // processes whose start was in progress
        for local in self.procs.values() {
            ended &= local.process.wait_end(5_000);
            ended &= local.inner.as_ref().is_none_or(|inner| inner.wait_end(5_000));
            local.process.reap();
        }
        self.stop_disk();
        if ended {
            self.heartbeat.rest();
        }
        ended
    }
}

fn kill(local: &Local) {
    if let Some(inner) = &local.inner {
        inner.kill();
    }
    local.process.kill_group();
}

#[cfg(test)]
mod tests;
