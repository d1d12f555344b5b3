//! Parity groups that change after PEs have moved, by the library's rules.

use std::sync::Arc;

use raidshmem_core::message::PeMessage;
use raidshmem_core::placement::Domains;
use raidshmem_core::protocol::Call;
use raidshmem_core::protocol::brought::Brought;
use raidshmem_core::quantity::{CheckpointNumber, ViewNumber};
use raidshmem_core::store::grouped::{Grouped, GroupedCheckpoints};
use raidshmem_core::store::protection::Protection;

use super::job::Job;
use super::pe::Proc;

impl Job {
    /// Chooses the groups for the call that begins.
    pub fn choose_groups(&self, p: &mut Proc, number: CheckpointNumber) {
        let last = p.known.last().expect("it has a number");
        p.groups = Some(match p.call {
            Call::Checkpoint if p.joined != ViewNumber(0) => {
                let job = (&self.plan.settings, &Domains::default());
                p.known.choose(job, &last, (number, p.joined), true)
            }
            _ => Arc::clone(&last),
        });
        if p.groups().places != last.places {
            (p.history, p.watch) = Default::default();
        }
    }

    /// Chooses new groups for the checkpoint that a process has just resumed from. False if they
    /// stay as they are.
    pub fn heals_groups(&mut self, p: &mut Proc) -> bool {
        let last = p.known.last().expect("it has a number");
        let job = (&self.plan.settings, &Domains::default());
        p.groups = p.known.heal(job, &last, (p.agreed, p.joined));
        if p.groups.is_none() {
            return false;
        }
        (p.history, p.watch) = Default::default();
        self.ending.healed += u32::from(p.me() == 0);
        true
    }

    /// Returns a process's contribution to the settling meeting.
    pub fn grouped(&self, p: &Proc) -> GroupedCheckpoints {
        let sealed = self.memory(p, p.me()).slots.iter();
        let sealed = sealed.filter(|slot| slot.record.0 != CheckpointNumber(0));
        let of = sealed.map(|slot| Grouped { number: slot.record.0, places: slot.places });
        p.known.bring(of)
    }

    /// Switches to the groups of the checkpoint that was decided on.
    pub fn take_groups(&mut self, p: &mut Proc, number: CheckpointNumber) {
        let Brought::Settling(.., all) = &p.met else {
            unreachable!("the meeting before the decision settles")
        };
        for slot in &mut self.memories[p.me()][p.memory as usize].slots {
            if slot.record.0 > number {
                slot.record = Default::default();
            }
        }
        let job = (&self.plan.settings, &Domains::default());
        p.groups = Some(p.known.decide(job, all, number));
    }

    /// Records the groups of the checkpoint just agreed.
    pub fn keep_groups(&mut self, p: &mut Proc) {
        let changed = p.known.last().is_none_or(|last| last.places != p.groups().places);
        self.ending.regrouped += u32::from(changed);
        p.known.agree(p.groups());
        self.report_groups(p);
    }

    /// Reports new groups to the launcher.
    pub fn report_groups(&mut self, p: &Proc) {
        let report = p.groups().report(p.number).filter(|_| p.me() == 0);
        report.into_iter().for_each(|report| self.say(p, PeMessage::Report(report)));
    }

    /// Returns the groups of all checkpoints that may be decided on.
    pub fn groups_in_use(&self) -> Vec<Arc<Protection>> {
        let members = self.procs.iter().filter(|p| p.alive && p.joined != ViewNumber(0));
        let known = members.flat_map(|p| p.known.last().into_iter().chain(p.groups.clone()));
        let mut all: Vec<Arc<Protection>> = known.collect();
        if all.is_empty() {
            all.push(Arc::clone(&self.plan.protection));
        }
        all.sort_by_key(|groups| groups.places);
        all.dedup_by_key(|groups| groups.places);
        all
    }
}
