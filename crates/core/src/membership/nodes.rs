//! The living nodes, and the newest view that each has published.
//!
//! Part of the machine in [`super`].

use std::collections::BTreeMap;

use super::decisions::Decisions;
use crate::message::Down;
use crate::quantity::ViewNumber;

/// The living nodes.
#[derive(Debug, Clone)]
pub(super) struct LivingNodes(BTreeMap<u32, ViewNumber>);

impl LivingNodes {
    /// Creates the nodes of a job that have published nothing yet.
    pub fn new(count: u32) -> LivingNodes {
        LivingNodes((0..count).map(|node| (node, ViewNumber(0))).collect())
    }

    /// Returns all living nodes.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// Returns true if the node lives.
    pub fn lives(&self, node: u32) -> bool {
        self.0.contains_key(&node)
    }

    /// Adds a node that has joined, and has published no view yet.
    pub fn add(&mut self, node: u32) {
        self.0.insert(node, ViewNumber(0));
    }

    /// Records that a node has published a view.
    pub fn note(&mut self, node: u32, number: ViewNumber) {
        if let Some(shown) = self.0.get_mut(&node) {
            *shown = number;
        }
    }

    /// Removes a lost node. Returns false if it was removed before.
    pub fn remove(&mut self, node: u32) -> bool {
        self.0.remove(&node).is_some()
    }

    /// Returns true if every living node has published this view.
    pub fn have_shown(&self, number: ViewNumber) -> bool {
        self.0.values().all(|&shown| shown >= number)
    }

    /// Sends a message to every living node.
    pub fn send(&self, message: &Down, out: &mut Decisions) {
        self.all().for_each(|node| out.send(node, message.clone()));
    }
}
