//! The orders of an agent, and their scheduling.
//!
//! Heartbeats and the order to end are handled at once. All other orders are carried out in
//! sequence, in short slices between checks of the clock and the connections: starting thousands of
//! processes takes longer than a node's lease, and the messages that renew the lease are queued
//! behind those orders.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use raidshmem_control::page::Page;
use raidshmem_control::trace;
use raidshmem_core::message::{Answer, AssignmentMessage, Down, ProcId, ToPe, Up};
use raidshmem_core::quantity::Pe;
use raidshmem_core::view::{MoveRequest, View};
use raidshmem_sys::socket::ChannelError;
use tracing::info;

use super::Agent;

/// The time slice for carrying out orders.
const SLICE: Duration = Duration::from_millis(5);
/// The maximum number of events of a node in one answer, about 100 bytes each.
const MOST: usize = 50_000;

impl Agent {
    /// Receives pending orders. Returns true when ordered to end.
    pub(super) fn receive_orders(&mut self) -> Result<bool, ChannelError> {
        self.up.flush()?;
        while let Some((message, fds)) = self.up.receive()? {
            match self.heartbeat.take_order(message, &mut self.up)? {
                None => {}
                Some(Down::Abort) => self.procs.abort(),
                Some(Down::Shutdown) => {
                    self.orders.clear();
                    return Ok(true);
                }
                Some(Down::Die) => {
                    use rustix::process::{Signal, getpid, kill_process};
                    let _ = kill_process(getpid(), Signal::KILL);
                }
                Some(order) => self.orders.push_back((order, fds)),
            }
        }
        Ok(false)
    }

    /// Carries out queued orders for one time slice.
    pub(super) fn carry_out(&mut self) -> Result<(), ChannelError> {
        let end = Instant::now() + SLICE;
        while let Some((order, fds)) = self.orders.pop_front() {
            self.execute(order, fds)?;
            if Instant::now() >= end {
                break;
            }
        }
        Ok(())
    }

    fn execute(&mut self, message: Down, mut fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        match message {
            Down::Join { .. } | Down::Configure { .. } | Down::Refused { .. } => {}
            Down::Beat(_) | Down::Ask { .. } | Down::Watch { .. } => {}
            question @ (Down::List { .. } | Down::Check { .. }) => {
                self.disk.answer(question, &mut self.up)?;
            }
            Down::BeginFrom { resume, sets } => {
                self.job.resume = Some(resume);
                self.starter.keep_output();
                self.disk.begin_again(sets);
            }
            Down::Parent { .. } | Down::Adopt { .. } | Down::Release { .. } => {}
            Down::Abort | Down::Shutdown | Down::Die => {}
            Down::MakeMemory { pe, memory, pages } => {
                self.memory.make((pe, memory), pages, &mut self.worker);
            }
            Down::Start { proc, pe } => {
                let (input, worker) = (&mut self.input, &mut self.worker);
                self.starter.start(proc, pe, input, worker, &mut self.up)?;
            }
            Down::Assign { proc, assignment } => self.assign(proc, assignment)?,
            Down::File { node } => {
                let Some(file) = fds.pop() else { return Err(ChannelError::Malformed(0)) };
                let file = Arc::new(file);
                self.reach.add_file(node, Arc::clone(&file));
                self.send_to_all(&ToPe::File { node }, &[file])?;
            }
            Down::Address { pe, incarnation, address } => {
                let told = ToPe::Address { pe, incarnation, address: address.clone() };
                self.send_to_all(&told, &[])?;
                self.reach.add_address(pe, incarnation, address);
            }
            Down::Show(view) => self.show(&view)?,
            Down::Dump { question, events } => self.dump(question, events)?,
            Down::Finish => self.publish(Page::finished, 1),
            Down::PreludesKept => self.publish(Page::preludes_kept, 1),
            Down::Drain(request) => self.publish(Page::drain, MoveRequest::pack(Some(request))),
            Down::DrainOver { serial } => {
                self.publish(Page::drain, MoveRequest::pack(None));
                self.publish(Page::drains_over, serial.into());
            }
            Down::Stopping => self.page.stopping().store(1, Ordering::SeqCst),
            Down::Look { proc } => {
                self.ended(proc)?;
                if !self.procs.is_ending(proc) {
                    self.up.send(&Up::Looked { proc })?;
                }
            }
            Down::Signal { signal } => {
                self.procs.signal(signal);
                if !self.worker.is_idle() {
                    self.starter.note_signal(signal);
                }
            }
            Down::Disk(task) => {
                let carrier = self.procs.carrier_of_any();
                self.disk.begin(task, &self.memory, carrier, &mut self.up)?;
            }
            Down::Input { bytes } => self.input.take(&bytes, &mut self.up)?,
            Down::Kill { proc } => self.procs.kill(proc),
        }
        Ok(())
    }

    /// Stores a word of the page, and wakes the PEs.
    fn publish(&mut self, word: impl Fn(&Page) -> &AtomicU64, value: u64) {
        word(&self.page).store(value, Ordering::SeqCst);
        self.procs.ring();
    }

    /// Publishes a view to the PEs.
    fn show(&mut self, view: &View) -> Result<(), ChannelError> {
        self.memory.free_moved(view, &mut self.worker);
        if view.pes[0].node != self.node {
            self.input.give_up();
        }
        info!("shows view {}", view.number);
        self.page.publish(view);
        self.procs.ring();
        self.up.send(&Up::Shown { number: view.number })
    }

    /// Makes a process a PE: sends it its number, and all by which it reaches the others.
    fn assign(&mut self, proc: ProcId, assignment: AssignmentMessage) -> Result<(), ChannelError> {
        let pe = assignment.pe;
        let control = self.memory.control(pe);
        let Some(local) = self.procs.get_mut(proc) else { return Ok(()) };
        local.assign(pe, control);
        if !local.meant {
            self.binder.bind(pe, local.carrier().pid);
        }
        let Some(channel) = &mut local.channel else { return Ok(()) };
        let (job, oversubscribed) = (Box::new(self.job.clone()), self.binder.oversubscribed());
        let assignment = ToPe::AssignmentMessage { job, assignment, oversubscribed };
        let sent = channel.send(&assignment, &[Arc::clone(&self.page_fd)]);
        let sent = sent.and_then(|()| self.reach.send(channel));
        self.check_sent(sent)
    }

    fn send_to_all(&mut self, message: &ToPe, fds: &[Arc<OwnedFd>]) -> Result<(), ChannelError> {
        let sent = self.procs.send_to_all(message, fds);
        self.check_sent(sent)
    }

    /// Ignores a PE that has ended, since its pidfd reports that; any other error ends the job,
    /// because the PE would wait forever for the lost message.
    fn check_sent(&mut self, sent: Result<(), ChannelError>) -> Result<(), ChannelError> {
        match sent {
            Ok(()) | Err(ChannelError::Closed) => Ok(()),
            Err(error) => self.up.fail(format!("a message to a PE: {error}")),
        }
    }

    /// Describes the processes of this node, and their last events if `all` is set. The agent reads
    /// both from memory that it holds, so it needs no help from a process.
    fn dump(&mut self, question: u32, all: bool) -> Result<(), ChannelError> {
        let (node, agent) = (self.node, std::process::id());
        let processes = self.procs.all().iter().map(|(&proc, local)| local.seen(proc)).collect();
        let mut events = Vec::new();
        if all {
            events = trace::last_events(trace::own(), usize::MAX, |_| format!("node {node}"));
            let here: Vec<Pe> = self.procs.pes().collect();
            events.extend(self.memory.events_of_all(here.into_iter(), MOST));
        }
        self.up.send(&Up::Dump(Answer { question, agent, processes, events }))
    }
}
