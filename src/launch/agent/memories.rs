//! What the agent gives its PEs: their numbers, and the memory of all whose memory they map.

#![forbid(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use raidshmem_core::message::{ProcId, ToPe, Welcome};
use raidshmem_core::page::PAGE;

use super::{Agent, Local};
use crate::sys::memory::Mapping;
use crate::sys::socket::ChannelError;

impl Agent {
    /// Keeps the memory of `pe`. Every PE here is sent it if it may wait for it: before the first
    /// view, or if the view shown names it; otherwise when it asks. A user may have few descriptors
    /// under way, all processes together: those that nobody takes yet would hold up the view that
    /// names them.
    pub(super) fn keep(&mut self, pe: u32, memory: u32, fd: OwnedFd) -> Result<(), ChannelError> {
        let fd = Arc::new(fd);
        let first = self.page.number().load(Ordering::Acquire) == 0;
        let waited_for = first || self.page.member(pe as usize).memory == memory;
        let sent = match waited_for {
            true => self.tell_all(&ToPe::Memory { pe, memory }, &[Arc::clone(&fd)]),
            false => Ok(()),
        };
        if let Some((_, before)) = self.memories.insert(pe, (memory, fd)) {
            self.wipe(before);
        }
        if !waited_for {
            self.procs.values_mut().for_each(|local| _ = local.unsent.insert(pe));
        }
        sent
    }

    /// A PE takes what it was not sent yet.
    pub(super) fn send_memories(&mut self, proc: ProcId) -> Result<(), ChannelError> {
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
        let Some(channel) = &mut local.channel else { return Ok(()) };
        let mut sent = Ok(());
        for pe in std::mem::take(&mut local.unsent) {
            if let Some((memory, fd)) = self.memories.get(&pe) {
                let memory = ToPe::Memory { pe, memory: *memory };
                sent = sent.and(channel.send(&memory, &[Arc::clone(fd)]));
            }
        }
        self.check_sent(sent)
    }

    /// The memory of `pe` goes: who was not sent it may wait for it in a view that named it.
    pub(super) fn send_last(&mut self, pe: u32) -> Result<(), ChannelError> {
        let unsent = |(&proc, local): (&ProcId, &Local)| local.unsent.contains(&pe).then_some(proc);
        let waiting: Vec<ProcId> = self.procs.iter().filter_map(unsent).collect();
        waiting.into_iter().try_for_each(|proc| self.send_memories(proc))
    }

    pub(super) fn tell_all(
        &mut self,
        message: &ToPe,
        fds: &[Arc<OwnedFd>],
    ) -> Result<(), ChannelError> {
        let mut sent = Ok(());
        for local in self.procs.values_mut().filter(|local| local.pe.is_some()) {
            if let Some(channel) = &mut local.channel {
                sent = sent.and(channel.send(message, fds));
            }
        }
        self.check_sent(sent)
    }

    /// A PE that is gone is reported by its pidfd; one that is not told what it waits for ends the
    /// job.
    fn check_sent(&mut self, sent: Result<(), ChannelError>) -> Result<(), ChannelError> {
        match sent {
            Ok(()) | Err(ChannelError::Closed) => Ok(()),
            Err(error) => self.fail(format!("a message to a PE: {error}")),
        }
    }

    pub(super) fn assign(&mut self, proc: ProcId, welcome: Welcome) -> Result<(), ChannelError> {
        let pe = welcome.pe;
        let Some((_, fd)) = self.memories.get(&pe) else {
            return self.fail(format!("no memory for PE {pe}"));
        };
        let control = Mapping::new(fd.as_fd(), 0, PAGE, None, true).ok();
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
        (local.pe, local.control) = (Some(pe), control);
        local.sink.iter().for_each(|sink| sink.name(pe));
        local.unsent.clear(); // all of them follow
        if !local.meant {
            self.binder.bind(pe, local.carrier().pid);
        }
        let Some(channel) = &mut local.channel else { return Ok(()) };
        let (job, oversubscribed) = (Box::new(self.job.clone()), self.binder.oversubscribed());
        let welcome = ToPe::Welcome { job, welcome, oversubscribed };
        let mut sent = channel.send(&welcome, &[Arc::clone(&self.page_fd)]);
        for (&pe, (memory, fd)) in &self.memories {
            if sent.is_ok() {
                let memory = ToPe::Memory { pe, memory: *memory };
                sent = channel.send(&memory, &[Arc::clone(fd)]);
            }
        }
        for (&pe, (incarnation, address)) in &self.addresses {
            if sent.is_ok() {
                let (incarnation, address) = (*incarnation, address.clone());
                sent = channel.send(&ToPe::Address { pe, incarnation, address }, &[]);
            }
        }
        self.check_sent(sent)
    }
}
