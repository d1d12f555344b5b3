//! The engine between nodes, and the state of the PEs that it reaches.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use raidshmem_control::page::Page;
use raidshmem_core::message::PeMessage;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::view::State;
use raidshmem_fabric::{Engine, EventSink};
use raidshmem_segment::Segment;
use raidshmem_sys::socket::Channel;
use tracing::info;

use super::far::FarLogs;

/// The engine between nodes, and its state per peer.
#[derive(Debug)]
pub(in crate::pgas) struct Remote {
    pub engine: Box<dyn Engine>,
    pub events: Arc<dyn EventSink>,
    pub links: std::sync::Mutex<Vec<RemotePeer>>,
    /// The incarnation of each PE in the last view passed to `refresh` in which it lived: mailbox
    /// words of any other are rejected.
    pub incarnations: Box<[AtomicU32]>,
}

/// The connection state of a PE that may not be mapped.
#[derive(Debug, Default, Clone)]
pub(in crate::pgas) struct RemotePeer {
    /// The newest incarnation that announced its address, and that address.
    pub address: Option<(Incarnation, Vec<u8>)>,
    /// The incarnation that the engine is connected to.
    pub connected: Option<Incarnation>,
}

/// Event sink that reads the page and notifies the agent.
pub(in crate::pgas) struct EngineEvents {
    pub page: Arc<Page>,
    pub channel: Option<Arc<Channel>>,
    pub own: &'static Segment,
    /// The receiver of the messages of far PEs, in a job with logs.
    pub far: Option<Arc<FarLogs>>,
}

impl EventSink for EngineEvents {
    fn gone(&self, pe: Pe, incarnation: Incarnation) -> bool {
        let member = self.page.member(pe);
        member.state != State::Alive || member.incarnation != incarnation
    }

    fn suspect(&self, pe: Pe, incarnation: Incarnation) {
        info!("the connection to PE {pe}, incarnation {incarnation}, broke");
        if let Some(channel) = &self.channel {
            // If the agent is gone, this process dies with it.
            let _ = channel.send(&PeMessage::Suspect { pe, incarnation }, &[]);
        }
    }

    fn arrived(&self) {
        fence(Ordering::SeqCst); // pairs with the announcement of a sleeper in `wait`
        self.own.words().bell.wake();
    }

    fn heard(&self, pe: Pe, incarnation: Incarnation, bytes: &[u8]) -> Vec<Vec<u8>> {
        let far = self.far.as_ref();
        far.map_or_else(Vec::new, |far| far.receive(pe, incarnation, bytes))
    }
}
