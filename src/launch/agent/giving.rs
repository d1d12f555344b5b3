//! What the agent gives its PEs: their numbers, and the memory files of the nodes whose PEs they
//! can map.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_core::message::{ProcId, ToPe, Welcome};
use raidshmem_core::page::PAGE;

use super::Agent;
use raidshmem_sys::socket::ChannelError;

impl Agent {
    /// Keeps the memory file of another node. A view that names the node comes after it.
    pub(super) fn keep(&mut self, node: u32, file: OwnedFd) -> Result<(), ChannelError> {
        let file = Arc::new(file);
        self.files.insert(node, Arc::clone(&file));
        self.tell_all(&ToPe::File { node }, &[file])
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
        let control = self.part(pe).map(0, PAGE, None, true).ok();
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
        (local.pe, local.control) = (Some(pe), control);
        local.sink.iter().for_each(|sink| sink.name(pe));
        if !local.meant {
            self.binder.bind(pe, local.carrier().pid);
        }
        let Some(channel) = &mut local.channel else { return Ok(()) };
        let (job, oversubscribed) = (Box::new(self.job.clone()), self.binder.oversubscribed());
        let welcome = ToPe::Welcome { job, welcome, oversubscribed };
        let mut sent = channel.send(&welcome, &[Arc::clone(&self.page_fd)]);
        for (&node, file) in &self.files {
            if sent.is_ok() {
                sent = channel.send(&ToPe::File { node }, &[Arc::clone(file)]);
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
