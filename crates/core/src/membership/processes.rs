//! The processes of a job: those that carry PEs or are to, and spares.
//!
//! Part of the machine in [`super`].

use std::collections::BTreeMap;

use super::decisions::Decisions;
use crate::ended::Ended;
use crate::message::{Down, ProcId};
use crate::quantity::Pe;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Pe(Pe),
    /// Intended for a PE number, not carrying it yet.
    Substitute(Pe),
    Spare,
}

impl Role {
    /// Returns the PE that a process carries or will carry; None for a spare.
    pub fn pe(self) -> Option<Pe> {
        match self {
            Role::Pe(pe) | Role::Substitute(pe) => Some(pe),
            Role::Spare => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Proc {
    pub node: u32,
    pub role: Role,
    pub hello: bool,
}

impl Proc {
    /// Returns true if it ended as a shell or the loader ends it when the program, or one of its
    /// libraries, is missing or not executable.
    pub fn lacks_program(&self, how: Ended) -> bool {
        !self.hello && matches!(how, Ended::Exited(126 | 127))
    }
}

/// The living processes.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    all: BTreeMap<ProcId, Proc>,
    pub next: ProcId,
}

impl Processes {
    /// Starts a process on a node.
    pub fn start(&mut self, node: u32, role: Role, out: &mut Decisions) -> ProcId {
        let proc = self.next;
        self.next += 1;
        self.all.insert(proc, Proc { node, role, hello: false });
        out.send(node, Down::Start { proc, pe: role.pe() });
        proc
    }

    /// Returns a process.
    pub fn get(&self, proc: ProcId) -> Option<&Proc> {
        self.all.get(&proc)
    }

    /// Returns a process, to be changed.
    pub fn get_mut(&mut self, proc: ProcId) -> Option<&mut Proc> {
        self.all.get_mut(&proc)
    }

    /// Removes a process that has ended.
    pub fn remove(&mut self, proc: ProcId) -> Option<Proc> {
        self.all.remove(&proc)
    }

    /// Removes the processes of a lost node, and returns their roles.
    pub fn remove_node(&mut self, node: u32) -> Vec<Role> {
        let gone: Vec<Role> = self.on(node).map(|proc| proc.role).collect();
        self.all.retain(|_, proc| proc.node != node);
        gone
    }

    fn on(&self, node: u32) -> impl Iterator<Item = &Proc> {
        self.all.values().filter(move |proc| proc.node == node)
    }

    /// Returns the processes that carry PEs or are to, each after its node.
    pub fn of_pes(&self) -> Vec<(u32, ProcId)> {
        let all = self.all.iter().filter(|(_, proc)| proc.role != Role::Spare);
        all.map(|(&id, proc)| (proc.node, id)).collect()
    }

    /// Returns the number of spares: processes that wait for a PE to be lost.
    pub fn spares(&self) -> usize {
        self.all.values().filter(|proc| proc.role == Role::Spare).count()
    }

    /// Returns the number of spares on a node.
    pub fn spares_on(&self, node: u32) -> usize {
        self.on(node).filter(|proc| proc.role == Role::Spare).count()
    }

    /// Returns a spare that can take over a PE, on a node that `on` selects.
    pub fn spare(&self, on: impl Fn(u32) -> bool) -> Option<ProcId> {
        let found = self.all.iter().find(|(_, p)| p.role == Role::Spare && p.hello && on(p.node));
        found.map(|(&id, _)| id)
    }

    /// Returns true if the process has reached `shmem_init`.
    pub fn is_ready(&self, proc: ProcId) -> bool {
        self.get(proc).is_some_and(|proc| proc.hello)
    }

    /// Returns true if a process other than a spare has reached `shmem_init`.
    pub fn any_is_ready(&self) -> bool {
        self.all.values().any(|proc| proc.hello && proc.role != Role::Spare)
    }
}
