//! The means by which the PEs of this node reach all others: memory files of nodes that they can
//! map, and addresses of PEs behind an engine.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use raidshmem_core::message::ToPe;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_sys::socket::{ChannelError, Outbox};

/// The files and addresses known so far.
pub(super) struct Reach {
    /// The memory files of the nodes that may map each other, including the own one.
    files: BTreeMap<u32, Arc<OwnedFd>>,
    /// Incarnation and address of each PE reached through an engine.
    addresses: BTreeMap<Pe, (Incarnation, Vec<u8>)>,
}

impl Reach {
    /// Begins with the memory file of the own node.
    pub fn new(node: u32, file: Arc<OwnedFd>) -> Reach {
        Reach { files: BTreeMap::from([(node, file)]), addresses: BTreeMap::new() }
    }

    /// Stores the memory file of another node. A view that names the node arrives later.
    pub fn add_file(&mut self, node: u32, file: Arc<OwnedFd>) {
        self.files.insert(node, file);
    }

    /// Stores the address of a PE.
    pub fn add_address(&mut self, pe: Pe, incarnation: Incarnation, address: Vec<u8>) {
        self.addresses.insert(pe, (incarnation, address));
    }

    /// Sends everything known to a PE.
    pub fn send(&self, channel: &mut Outbox) -> Result<(), ChannelError> {
        for (&node, file) in &self.files {
            channel.send(&ToPe::File { node }, &[Arc::clone(file)])?;
        }
        for (&pe, (incarnation, address)) in &self.addresses {
            let (incarnation, address) = (*incarnation, address.clone());
            channel.send(&ToPe::Address { pe, incarnation, address }, &[])?;
        }
        Ok(())
    }
}
