//! Resources that the agent passes to its PEs: their numbers, the memory files of nodes whose PEs
//! they can map, and PE 0's standard input if the launcher provides it.

#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_core::message::{AssignmentMessage, ProcId, Stdin, ToPe, Up};
use raidshmem_core::page::PAGE;
use raidshmem_core::quantity::Pe;

use super::Agent;
use super::input::Pipe;
use raidshmem_sys::socket::ChannelError;

impl Agent {
    /// Stores the memory file of another node. A view that names the node arrives later.
    pub(super) fn keep(&mut self, node: u32, file: OwnedFd) -> Result<(), ChannelError> {
        let file = Arc::new(file);
        self.files.insert(node, Arc::clone(&file));
        self.send_to_all(&ToPe::File { node }, &[file])
    }

    pub(super) fn send_to_all(
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

    /// Ignores a PE that has ended, since its pidfd reports that; any other error ends the job,
    /// because the PE would wait forever for the lost message.
    fn check_sent(&mut self, sent: Result<(), ChannelError>) -> Result<(), ChannelError> {
        match sent {
            Ok(()) | Err(ChannelError::Closed) => Ok(()),
            Err(error) => self.fail(format!("a message to a PE: {error}")),
        }
    }

    pub(super) fn assign(
        &mut self,
        proc: ProcId,
        assignment: AssignmentMessage,
    ) -> Result<(), ChannelError> {
        let pe = assignment.pe;
        let control = self.part(pe).map(0, PAGE, None, true).ok();
        let Some(local) = self.procs.get_mut(&proc) else { return Ok(()) };
        (local.pe, local.control) = (Some(pe), control);
        local.sink.iter().for_each(|sink| sink.name(pe));
        if !local.meant {
            self.binder.bind(pe, local.carrier().pid);
        }
        let Some(channel) = &mut local.channel else { return Ok(()) };
        let (job, oversubscribed) = (Box::new(self.job.clone()), self.binder.oversubscribed());
        let assignment = ToPe::AssignmentMessage { job, assignment, oversubscribed };
        let mut sent = channel.send(&assignment, &[Arc::clone(&self.page_fd)]);
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

    /// Returns the standard input for a process of `pe`, if the launcher provides it.
    pub(super) fn input_of(&mut self, pe: Option<Pe>) -> std::io::Result<Option<OwnedFd>> {
        let is_sent = self.place.input == Stdin::Launcher && pe == Some(Pe(0));
        is_sent.then(|| self.pipe()?.end()).transpose()
    }

    fn pipe(&mut self) -> std::io::Result<&mut Pipe> {
        let pipe = self.input.take().map_or_else(Pipe::new, Ok)?;
        Ok(self.input.insert(pipe))
    }

    /// Takes more of PE 0's standard input; no `bytes` mean EOF.
    pub(super) fn hear_input(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        match self.pipe() {
            Ok(pipe) => pipe.take(bytes),
            Err(error) => return self.fail(format!("a pipe for standard input: {error}")),
        }
        self.write_input()
    }

    /// Writes pending input as far as the pipe takes it, and acknowledges the amount.
    pub(super) fn write_input(&mut self) -> Result<(), ChannelError> {
        match self.input.as_mut().map_or(0, Pipe::write) {
            0 => Ok(()),
            bytes => self.up.send(&Up::InputTaken { bytes: bytes as u32 }, &[]),
        }
    }
}
