//! The engine between nodes, and what is known of the PEs that are reached through it.

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

/// The engine between nodes and what it needs to know of the peers.
#[derive(Debug)]
pub(in crate::pgas) struct Far {
    pub engine: Box<dyn Engine>,
    pub events: Arc<dyn EventSink>,
    pub links: std::sync::Mutex<Vec<FarPeer>>,
    /// The incarnation of each PE in the view that was last given to `refresh`, in which it lived:
    /// words of others on the mailbox are refused.
    pub heard: Box<[AtomicU32]>,
}

/// What is known of a PE that may be out of reach.
#[derive(Debug, Default, Clone)]
pub(in crate::pgas) struct FarPeer {
    /// The newest incarnation that said where it is reached.
    pub address: Option<(Incarnation, Vec<u8>)>,
    /// The incarnation that the engine is connected to.
    pub connected: Option<Incarnation>,
}

/// Asks the page, and tells the agent.
pub(in crate::pgas) struct EngineEvents {
    pub page: Arc<Page>,
    pub channel: Option<Arc<Channel>>,
    pub own: &'static Segment,
}

impl EventSink for EngineEvents {
    fn gone(&self, pe: Pe, incarnation: Incarnation) -> bool {
        let member = self.page.member(pe);
        member.state != State::Alive || member.incarnation != incarnation
    }

    fn suspect(&self, pe: Pe, incarnation: Incarnation) {
        info!("the connection to PE {pe}, incarnation {incarnation}, broke");
        if let Some(channel) = &self.channel {
            // An agent that is gone takes this process with it.
            let _ = channel.send(&PeMessage::Suspect { pe, incarnation }, &[]);
        }
    }

    fn arrived(&self) {
        fence(Ordering::SeqCst); // pairs with the announcement of a sleeper in `wait`
        self.own.words().bell.wake();
    }
}
