//! Broken connections: the choice of the PE to end when one of two reports losing the other.
//!
//! Part of the machine in [`super`]. Operations in flight on the connection are lost, and only a
//! rollback repairs that, so one of the two must be replaced. Third parties decide which one:
//!
//! ```text
//! agent            the suspect's agent does not answer: its node is in doubt, not the PE
//! second accuser   on another node: the suspect is ended, though its agent still has it
//! witness          a third node, asked whether it can reach both nodes:
//!                  only the suspect's: the accuser is ended; otherwise the suspect
//! no witness       two nodes, or one machine: the suspect is ended
//! ```
//!
//! Invariants: no process is ended because of an earlier incarnation; of the two PEs of one
//! connection only one is ended, even if each accuses the other.

use super::decisions::Decisions;
use super::members::Members;
use super::nodes::LivingNodes;
use super::suspicion::{Process, Suspicion, Suspicions, decide};
use crate::message::{Down, ProcId};
use crate::quantity::{Incarnation, Pe};

impl Suspicions {
    /// Handles a report that `accuser` lost its connection to this incarnation of `pe`.
    pub(super) fn suspect(
        &mut self,
        accuser: Pe,
        suspect: (Pe, Incarnation),
        members: &Members,
        nodes: &LivingNodes,
        out: &mut Decisions,
    ) {
        let accuser = (accuser, members.view.pes[accuser.at()].incarnation);
        if accuser.0 == suspect.0 || !members.carries_on(accuser) || !members.carries_on(suspect) {
            return;
        }
        let node = |process: Process| members.view.pes[process.0.at()].node;
        let of_pair = |suspicion: &Suspicion| {
            let pair = (suspicion.accuser, suspicion.suspect);
            pair == (accuser, suspect) || pair == (suspect, accuser)
        };
        let seconds = |suspicion: &Suspicion| {
            suspicion.suspect == suspect && node(suspicion.accuser) != node(accuser)
        };
        if let Some(first) = self.open.iter().position(seconds) {
            self.open[first].second = Some(accuser.0);
            return;
        }
        if self.open.iter().any(of_pair) {
            return;
        }
        let pair = [node(accuser), node(suspect)];
        let witness = nodes.all().find(|node| !pair.contains(node));
        let witness = witness.filter(|_| self.among_hosts);
        if let Some(witness) = witness {
            pair.into_iter().for_each(|node| out.send(witness, Down::Ask { node, at: None }));
        }
        if let Some(proc) = members.pes[suspect.0.at()].proc {
            out.send(pair[1], Down::Look { proc });
        }
        let (answered, second, hears) = (false, None, [None; 2]);
        self.open.push(Suspicion { accuser, suspect, answered, second, witness, hears });
    }

    /// Records that the agent of `proc` answered.
    pub(super) fn add_answer(&mut self, proc: ProcId, members: &Members) {
        for suspicion in &mut self.open {
            let asked = members.pes[suspicion.suspect.0.at()].proc == Some(proc);
            suspicion.answered |= asked;
        }
    }

    /// Records the second opinion of node `by` on node `about`.
    pub(super) fn add_opinion(&mut self, by: u32, about: u32, alive: bool, members: &Members) {
        for suspicion in self.open.iter_mut().filter(|suspicion| suspicion.witness == Some(by)) {
            let pair = [suspicion.accuser, suspicion.suspect];
            for (hears, (pe, _)) in suspicion.hears.iter_mut().zip(pair) {
                if members.view.pes[pe.at()].node == about {
                    *hears = Some(alive);
                }
            }
        }
    }

    /// Drops suspicions that no longer matter, and decides those that are complete.
    pub(super) fn settle(&mut self, members: &Members, nodes: &LivingNodes, out: &mut Decisions) {
        self.open.retain(|suspicion| {
            members.carries_on(suspicion.accuser) && members.carries_on(suspicion.suspect)
        });
        for suspicion in &mut self.open {
            suspicion.witness = suspicion.witness.filter(|&node| nodes.lives(node));
        }
        while let Some((suspicion, declared, why)) = self.open.iter().find_map(decide) {
            self.open.retain(|one| one.accuser != declared && one.suspect != declared);
            out.say(format!(
                "the connection of PE {} to PE {} broke, {why}: PE {} is ended",
                suspicion.accuser.0, suspicion.suspect.0, declared.0
            ));
            let node = members.view.pes[declared.0.at()].node;
            if let Some(proc) = members.pes[declared.0.at()].proc {
                out.send(node, Down::Kill { proc });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Cluster;
    use super::super::{MembershipEvent, Shape};
    use super::*;
    use crate::message::PeMessage;
    use crate::quantity::ViewNumber;
    use crate::settings::{BackupMode, Fabric, Settings};

    /// Creates a cluster of `nodes` nodes with two PEs each, over an engine.
    fn cluster(nodes: u32, among_hosts: bool) -> Cluster {
        let node_of = (0..2 * nodes).map(|pe| pe / 2).collect();
        let shape = Shape { node_of, nodes, spares: Vec::new(), fabric: Fabric::Ucx };
        let mode = if nodes > 2 { BackupMode::Raid5 } else { BackupMode::Double };
        let settings = Settings { backup_mode: mode, ..Settings::default() };
        let groups = (0..2 * nodes as usize).map(|pe| pe % 2).collect();
        let mut cluster = Cluster::new(&shape, &settings, groups);
        if among_hosts {
            cluster.machine.let_nodes_be_asked();
        }
        cluster
    }

    fn suspects(cluster: &mut Cluster, accuser: u32, pe: u32) {
        cluster.says(accuser, PeMessage::Suspect { pe: Pe(pe), incarnation: Incarnation(0) });
    }

    fn asked(cluster: &Cluster) -> Vec<(u32, u32)> {
        let ask = |(witness, message): &(u32, Down)| match message {
            Down::Ask { node, .. } => Some((*witness, *node)),
            _ => None,
        };
        cluster.sent.iter().filter_map(ask).collect()
    }

    /// The suspect's agent answers.
    fn answers(cluster: &mut Cluster, pe: u32) {
        let proc = cluster.proc_of(pe);
        cluster.event(MembershipEvent::Looked { proc });
    }

    fn killed(cluster: &Cluster) -> Vec<u32> {
        let proc = |(_, message): &(u32, Down)| match message {
            Down::Kill { proc } => Some(*proc),
            _ => None,
        };
        let of = |proc| {
            (0..cluster.machine.members.pes.len() as u32).find(|&pe| cluster.proc_of(pe) == proc)
        };
        cluster.sent.iter().filter_map(proc).filter_map(of).collect()
    }

    #[test]
    fn a_third_node_decides_which_of_two_pes_is_ended() {
        for (accuser_is_heard, suspect_is_heard, declared) in
            [(true, true, 3), (true, false, 3), (false, true, 0), (false, false, 3)]
        {
            let mut cluster = cluster(3, true);
            suspects(&mut cluster, 0, 3);
            assert_eq!(asked(&cluster), [(2, 0), (2, 1)]);
            answers(&mut cluster, 3);
            assert!(killed(&cluster).is_empty(), "the other node has said nothing yet");
            let opinion = |about, alive| MembershipEvent::Opinion { by: 2, about, alive };
            cluster.event(opinion(0, accuser_is_heard));
            assert!(killed(&cluster).is_empty(), "nor of the other");
            cluster.event(opinion(1, suspect_is_heard));
            assert_eq!(killed(&cluster), [declared]);
        }
    }

    #[test]
    fn a_suspect_with_a_silent_agent_waits_for_the_fate_of_its_node() {
        let mut cluster = cluster(3, true);
        suspects(&mut cluster, 0, 3);
        for about in [0, 1] {
            cluster.event(MembershipEvent::Opinion { by: 2, about, alive: about == 0 });
        }
        assert!(killed(&cluster).is_empty());
        cluster.event(MembershipEvent::NodeLost { node: 1 });
        assert!(killed(&cluster).is_empty(), "it died with its node");
        answers(&mut cluster, 3);
        assert!(killed(&cluster).is_empty(), "its substitute is another");
    }

    #[test]
    fn two_accusers_on_two_nodes_are_enough_and_two_on_one_are_not() {
        let mut cluster = cluster(3, true);
        suspects(&mut cluster, 0, 3);
        suspects(&mut cluster, 1, 3);
        assert!(killed(&cluster).is_empty());
        suspects(&mut cluster, 4, 3);
        assert!(killed(&cluster).is_empty(), "its node may be lost");
        answers(&mut cluster, 3);
        assert_eq!(killed(&cluster), [3]);
        answers(&mut cluster, 3);
        assert_eq!(killed(&cluster), [3], "once");
    }

    /// Connections break before the launcher learns that the node is lost.
    #[test]
    fn a_pe_that_dies_with_its_node_is_not_blamed_for_the_connections_of_two() {
        let mut cluster = cluster(3, true);
        suspects(&mut cluster, 0, 3);
        suspects(&mut cluster, 4, 3);
        cluster.event(MembershipEvent::NodeLost { node: 1 });
        assert!(killed(&cluster).is_empty());
    }

    #[test]
    fn of_two_that_accuse_each_other_one_is_ended() {
        let mut cluster = cluster(2, true);
        suspects(&mut cluster, 0, 3);
        suspects(&mut cluster, 3, 0);
        assert!(asked(&cluster).is_empty(), "there is nobody");
        answers(&mut cluster, 0);
        assert!(killed(&cluster).is_empty(), "no PE asked about this one");
        answers(&mut cluster, 3);
        assert_eq!(killed(&cluster), [3]);
    }

    /// It waits there for its accuser, which waits for the decision.
    #[test]
    fn a_suspect_in_finalize_is_ended_and_replaced() {
        for accuser_too in [false, true] {
            let mut cluster = cluster(3, true);
            let finalizing = PeMessage::Finalizing { joined: ViewNumber(1), cut: false };
            cluster.says(3, finalizing.clone());
            if accuser_too {
                cluster.says(0, finalizing);
            }
            suspects(&mut cluster, 0, 3);
            assert_eq!(asked(&cluster), [(2, 0), (2, 1)]);
            answers(&mut cluster, 3);
            for about in [0, 1] {
                cluster.event(MembershipEvent::Opinion { by: 2, about, alive: true });
            }
            assert_eq!(killed(&cluster), [3]);
            cluster.die(3);
            assert_eq!(cluster.member(3).incarnation, Incarnation(1));
        }
    }

    #[test]
    fn when_all_are_in_finalize_no_pe_is_suspected() {
        let mut cluster = cluster(2, true);
        suspects(&mut cluster, 0, 3);
        (0..4).for_each(|pe| {
            cluster.says(pe, PeMessage::Finalizing { joined: ViewNumber(1), cut: false })
        });
        answers(&mut cluster, 3);
        suspects(&mut cluster, 3, 0);
        answers(&mut cluster, 0);
        assert!(killed(&cluster).is_empty());
    }

    #[test]
    fn a_witness_that_is_lost_has_no_opinion() {
        let mut cluster = cluster(3, true);
        suspects(&mut cluster, 0, 3);
        answers(&mut cluster, 3);
        cluster.event(MembershipEvent::NodeLost { node: 2 });
        assert_eq!(killed(&cluster), [3]);
    }

    #[test]
    fn on_one_machine_no_other_node_is_asked() {
        let mut cluster = cluster(3, false);
        suspects(&mut cluster, 0, 3);
        assert!(asked(&cluster).is_empty());
        answers(&mut cluster, 3);
        assert_eq!(killed(&cluster), [3]);
    }

    #[test]
    fn a_process_that_died_or_is_another_by_now_is_left_alone() {
        let mut cluster = cluster(3, true);
        cluster.says(0, PeMessage::Suspect { pe: Pe(3), incarnation: Incarnation(1) });
        assert!(asked(&cluster).is_empty(), "there is no such incarnation");
        suspects(&mut cluster, 0, 3);
        cluster.die(3);
        assert_eq!(cluster.member(3).incarnation, Incarnation(1));
        answers(&mut cluster, 3);
        suspects(&mut cluster, 5, 3);
        assert!(killed(&cluster).is_empty());
    }
}
