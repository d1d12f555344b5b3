//! A simulated healthy cluster, and the machine's guarantees checked on it.

mod crashes;
mod drain;
mod falling;
mod holes;
mod join;
mod local;
mod preludes;
mod reached;
mod starting;
mod survey;

use std::time::Duration;

use super::*;
use crate::ended::UNRECOVERABLE;
use crate::message::ProgressReport;
use crate::settings::Fabric;
use crate::view::Member;

fn settings(mode: BackupMode) -> Settings {
    Settings { backup_mode: mode, ..Settings::default() }
}

/// A cluster that carries out actions as a healthy one would, until none is left.
pub struct Cluster {
    pub machine: Membership,
    pub sent: Vec<(u32, Down)>,
    end: Option<(i32, Option<String>)>,
    /// Changes of memory and views, in order.
    log: Vec<String>,
    hold_shown: bool,
    hold_rests: bool,
    hold_wiped: bool,
    /// True if new processes must not reach `shmem_init`.
    hold_hello: bool,
    /// True if PEs report their address as soon as they know their number.
    reached: bool,
    held: Vec<MembershipEvent>,
}

impl Cluster {
    pub fn new(shape: &Shape, settings: &Settings, groups: Vec<usize>) -> Cluster {
        let (machine, first) = Membership::new(shape, settings, groups);
        let reached = shape.fabric != Fabric::Shm;
        let (hold_shown, hold_rests, hold_wiped, hold_hello) = (false, false, false, false);
        let (end, held, sent, log) = (None, Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Cluster {
            machine,
            sent,
            end,
            log,
            hold_shown,
            hold_rests,
            hold_wiped,
            hold_hello,
            reached,
            held,
        };
        cluster.act(first);
        cluster
    }

    fn four(settings: &Settings, spares: usize) -> Cluster {
        let nodes = if spares > 0 { 5 } else { 4 };
        let (node_of, spares) = (vec![0, 1, 2, 3], vec![4; spares]);
        let shape = Shape { node_of, nodes, spares, fabric: Fabric::Shm };
        Cluster::new(&shape, settings, vec![0; 4])
    }

    fn act(&mut self, actions: Vec<Action>) {
        let mut events = Vec::new();
        for action in actions {
            match action {
                Action::Send { node, message } => {
                    match &message {
                        Down::MakeMemory { pe, memory, .. } => {
                            self.log.push(format!("make {pe}.{memory}"));
                            events.push(MembershipEvent::MemoryMade { pe: *pe, memory: *memory });
                        }
                        Down::Start { proc, .. } if !self.hold_hello => {
                            let what = PeMessage::Hello;
                            events.push(MembershipEvent::Message { proc: *proc, what });
                        }
                        Down::Assign { proc, .. } if self.reached => {
                            let what = PeMessage::Address { address: vec![7] };
                            events.push(MembershipEvent::Message { proc: *proc, what });
                        }
                        Down::Address { pe, incarnation, .. } => {
                            self.log.push(format!("tell {node} of {pe}.{incarnation}"));
                        }
                        Down::Show(view) => {
                            events.push(MembershipEvent::Shown { node, number: view.number });
                        }
                        _ => {}
                    }
                    self.sent.push((node, message));
                }
                Action::Rest { .. } if self.hold_rests => {}
                Action::Rest { pe, .. } => events.push(MembershipEvent::Rested { pe }),
                Action::Wipe { pe, memory } => {
                    self.log.push(format!("wipe {pe}.{memory}"));
                    events.push(MembershipEvent::Wiped { pe, memory });
                }
                Action::End { status, words } => self.end = Some((status, words)),
                Action::KillNode { node } => self.log.push(format!("kill {node}")),
                done @ (Action::Drained { .. } | Action::Moved { .. }) => {
                    self.log.push(format!("{done:?}"))
                }
                Action::GiveUp { why } => self.log.push(format!("gives up: {why}")),
                Action::ChooseSet { home } => self.log.push(format!("choose {home:?}")),
                Action::Say(line) => self.log.push(line),
                Action::Survives(survival) => self.log.push(format!("now {survival}")),
                Action::Lost { .. } | Action::Tell(_) => {}
            }
        }
        for event in events {
            let shown = matches!(event, MembershipEvent::Shown { .. });
            let wiped = matches!(event, MembershipEvent::Wiped { .. });
            if self.hold_shown && shown || self.hold_wiped && wiped {
                self.held.push(event);
            } else {
                self.event(event);
            }
        }
    }

    pub fn event(&mut self, event: MembershipEvent) {
        if let MembershipEvent::Shown { node, number } = &event {
            self.log.push(format!("shown {number} by {node}"));
        }
        let actions = self.machine.handle(event);
        self.act(actions);
    }

    pub fn proc_of(&self, pe: u32) -> ProcId {
        self.machine.members.pes[pe as usize].proc.expect("carried by a process")
    }

    /// Reports that PE 0 has saved a checkpoint in the initial groups.
    fn checkpoint(&mut self, number: u64) {
        let (number, places, bytes, kept) = (CheckpointNumber(number), ViewNumber(0), 1, 1);
        let (took, protects, changed) = (Duration::ZERO, Duration::ZERO, None);
        let report =
            ProgressReport::Checkpoint { number, places, bytes, kept, took, protects, changed };
        self.says(0, PeMessage::Report(report));
    }

    pub fn die(&mut self, pe: u32) {
        let proc = self.proc_of(pe);
        self.event(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
    }

    pub fn says(&mut self, pe: u32, what: PeMessage) {
        let proc = self.proc_of(pe);
        self.event(MembershipEvent::Message { proc, what });
    }

    pub fn member(&self, pe: usize) -> Member {
        self.machine.view().pes[pe]
    }

    fn wiped(&self) -> Vec<&str> {
        self.log.iter().map(String::as_str).filter(|line| line.starts_with("wipe")).collect()
    }

    fn ended(&self) -> (i32, &str) {
        let (status, words) = self.end.as_ref().expect("the job is over");
        (*status, words.as_deref().unwrap_or(""))
    }
}

#[test]
fn a_job_starts_whole_at_view_1() {
    let cluster = Cluster::four(&settings(BackupMode::Raid5), 1);
    assert_eq!(cluster.machine.view().number, ViewNumber(1));
    assert!(cluster.machine.view().whole());
    let assigned = cluster.sent.iter().filter(|(_, m)| matches!(m, Down::Assign { .. })).count();
    assert_eq!(assigned, 4, "the spare is not given a number");
}

#[test]
fn a_dead_process_is_replaced_on_its_node_and_its_memory_kept() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    cluster.die(2);
    let member = cluster.member(2);
    assert_eq!((member.state, member.incarnation.0), (State::Alive, 1));
    assert_eq!((member.memory, member.node), (0, 2));
    assert!(cluster.wiped().is_empty());
}

#[test]
fn without_adoption_the_memory_is_wiped_and_recreated() {
    let settings = Settings { adopt: false, ..settings(BackupMode::Raid5) };
    let mut cluster = Cluster::four(&settings, 0);
    cluster.die(2);
    assert_eq!((cluster.wiped(), cluster.member(2).memory), (vec!["wipe 2.0"], 1));
}

#[test]
fn a_lost_node_is_wiped_and_replaced_only_after_every_node_shows_the_death() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 1);
    cluster.hold_shown = true;
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert_eq!(cluster.member(1).state, State::NodeDead);
    let held = std::mem::take(&mut cluster.held);
    assert_eq!(held.len(), 4, "living nodes, the spare's among them");
    for event in held {
        assert!(cluster.wiped().is_empty(), "not before the view is shown everywhere");
        cluster.event(event);
    }
    let member = cluster.member(1);
    assert_eq!((member.state, member.node, member.memory), (State::Alive, 4, 1));
    let at = |what: &str| cluster.log.iter().position(|line| line == what).unwrap();
    assert!(at("shown 2 by 4") < at("wipe 1.0") && at("wipe 1.0") < at("make 1.1"));
}

#[test]
fn all_processes_may_die_while_their_memory_is_there() {
    let all_die = |settings: &Settings| {
        let mut cluster = Cluster::four(settings, 0);
        cluster.hold_shown = true;
        (0..4).for_each(|pe| cluster.die(pe));
        cluster
    };
    let mut cluster = all_die(&settings(BackupMode::Raid5));
    cluster.hold_shown = false;
    for event in std::mem::take(&mut cluster.held) {
        cluster.event(event);
    }
    assert!(cluster.end.is_none() && cluster.machine.view().whole());
    assert!(cluster.wiped().is_empty(), "and is taken over");
    let mut cluster = all_die(&settings(BackupMode::Raid5));
    (0..3).for_each(|node| cluster.event(MembershipEvent::NodeLost { node }));
    assert!(cluster.end.is_none(), "its successor decides whether one memory is enough");
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    assert_eq!(cluster.ended(), (UNRECOVERABLE, "unrecoverable: every PE was lost"));
    let cluster = all_die(&Settings { adopt: false, ..settings(BackupMode::Raid5) });
    assert_eq!(cluster.ended(), (UNRECOVERABLE, "unrecoverable: every PE was lost"));
}

#[test]
fn a_number_is_given_away_only_after_the_lost_memory_is_wiped() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    cluster.hold_wiped = true;
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert!(cluster.log.iter().any(|line| line == "make 1.1"), "{:?}", cluster.log);
    assert_eq!(cluster.member(1).state, State::NodeDead, "its old memory is there");
    let home = cluster.member(1).node;
    cluster.event(MembershipEvent::NodeLost { node: home });
    for event in std::mem::take(&mut cluster.held) {
        assert_ne!(cluster.member(1).state, State::Alive, "nor does a second loss hurry it");
        cluster.event(event);
    }
    for event in std::mem::take(&mut cluster.held) {
        cluster.event(event);
    }
    assert!(cluster.machine.view().whole(), "{:?}", cluster.log);
}

#[test]
fn two_nodes_lost_at_once_are_both_replaced() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 2);
    cluster.hold_shown = true;
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    cluster.hold_shown = false;
    for event in std::mem::take(&mut cluster.held) {
        cluster.event(event);
    }
    assert!(cluster.machine.view().whole());
    assert_eq!(cluster.wiped(), ["wipe 1.0", "wipe 3.0"]);
}

#[test]
fn no_substitute_left_is_an_error_not_a_hang() {
    let settings = Settings { substitute: Substitute::Spare, ..settings(BackupMode::Raid5) };
    let mut cluster = Cluster::four(&settings, 1);
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert!(cluster.machine.view().whole());
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    let (status, words) = cluster.ended();
    assert_eq!(status, UNRECOVERABLE);
    assert!(words.contains("no substitute left for PE 2"), "{words}");
}

#[test]
fn a_spawned_substitute_keeps_away_from_its_group() {
    let (node_of, spares) = (vec![0, 0, 1, 1, 2, 2], Vec::new());
    let shape = Shape { node_of, nodes: 3, spares, fabric: Fabric::Shm };
    let groups = vec![0, 1, 0, 1, 1, 1];
    let mut cluster = Cluster::new(&shape, &settings(BackupMode::Raid5), groups);
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert_eq!(cluster.member(2).node, 2, "group 0 has a PE on node 0 and none on node 2");
}

#[test]
fn mode_none_ends_with_the_status_of_the_dead() {
    let mut cluster = Cluster::four(&settings(BackupMode::None), 0);
    cluster.die(3);
    assert_eq!(cluster.ended().0, 137);
}

#[test]
fn a_job_ends_when_all_have_finalized_with_the_first_status_that_is_not_zero() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    for pe in 0..4 {
        cluster.says(pe, PeMessage::Finalizing { joined: ViewNumber(1), cut: false });
    }
    assert_eq!(cluster.sent.iter().filter(|(_, m)| matches!(m, Down::Finish)).count(), 4);
    for pe in 0..4 {
        let proc = cluster.proc_of(pe);
        cluster.says(pe, PeMessage::Finalized);
        let how = [Ended::Exited(0), Ended::Exited(0), Ended::Exited(7), Ended::Killed(9)];
        cluster.event(MembershipEvent::Ended { proc, how: how[pe as usize] });
    }
    assert_eq!(cluster.ended(), (7, "PE 2 exited with status 7 after shmem_finalize"));
    let line = "PE 3 was killed by SIGKILL after shmem_finalize";
    assert_eq!(cluster.log.last().map(String::as_str), Some(line));
}

#[test]
fn nodes_lost_when_all_have_entered_finalize_are_not_replaced() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    for pe in 0..4 {
        cluster.says(pe, PeMessage::Finalizing { joined: ViewNumber(1), cut: false });
    }
    let started = |cluster: &Cluster| {
        cluster.sent.iter().filter(|(_, m)| matches!(m, Down::Start { .. })).count()
    };
    cluster.says(1, PeMessage::Finalized);
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert_eq!(started(&cluster), 4, "the four of the beginning");
}

#[test]
fn a_node_that_is_lost_after_finalize_is_the_end_of_its_pe() {
    for (mode, status) in [(BackupMode::Raid5, 0), (BackupMode::Double, 0), (BackupMode::None, 137)]
    {
        let mut cluster = Cluster::four(&settings(mode), 0);
        for pe in 0..4 {
            cluster.says(pe, PeMessage::Finalizing { joined: ViewNumber(1), cut: false });
        }
        for pe in 0..4 {
            cluster.says(pe, PeMessage::Finalized);
        }
        for pe in [0, 2, 3] {
            let proc = cluster.proc_of(pe);
            cluster.event(MembershipEvent::Ended { proc, how: Ended::Exited(0) });
        }
        assert!(cluster.end.is_none(), "PE 1 does something else");
        cluster.event(MembershipEvent::NodeLost { node: 1 });
        assert_eq!(cluster.ended(), (status, ""));
        let costs_nothing = cluster.log.iter().any(|line| line.ends_with("costs nothing"));
        assert_eq!(costs_nothing, status == 0);
    }
}

/// PE `pe` enters finalize as a member of the newest view.
fn finalizes(cluster: &mut Cluster, pe: u32) {
    let joined = cluster.machine.view().number;
    cluster.says(pe, PeMessage::Finalizing { joined, cut: false });
}

fn is_finishing(cluster: &Cluster) -> bool {
    cluster.sent.iter().any(|(_, message)| matches!(message, Down::Finish))
}

#[test]
fn a_loss_while_others_are_in_finalize_is_replaced_and_they_take_part() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    (0..3).for_each(|pe| finalizes(&mut cluster, pe));
    cluster.die(3);
    assert_eq!((cluster.member(3).incarnation.0, cluster.machine.view().whole()), (1, true));
    finalizes(&mut cluster, 3);
    assert!(!is_finishing(&cluster), "the others have not seen the loss");
    (0..3).for_each(|pe| finalizes(&mut cluster, pe));
    assert!(is_finishing(&cluster));
    assert!(cluster.end.is_none());
}

/// A PE that continued without noticing the loss, and without being affected by it.
#[test]
fn an_unnoticed_loss_delays_the_end_until_it_is_repaired() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    cluster.die(3);
    for pe in 0..4 {
        cluster.says(pe, PeMessage::Finalizing { joined: ViewNumber(1), cut: false });
    }
    assert!(!is_finishing(&cluster));
    (0..4).for_each(|pe| finalizes(&mut cluster, pe));
    assert!(is_finishing(&cluster));
}

#[test]
fn a_loss_that_finalize_cannot_survive_is_named() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    cluster.die(2);
    cluster.says(0, PeMessage::Finalizing { joined: ViewNumber(1), cut: true });
    let (status, words) = cluster.ended();
    assert_eq!(status, UNRECOVERABLE);
    assert!(words.contains("PE 0") && words.contains("PE 2 was lost"), "{words}");
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    finalizes(&mut cluster, 1);
    cluster.die(2);
    assert!(cluster.end.is_none(), "perhaps nothing is missing");
    cluster.says(2, PeMessage::NeedsOthers);
    let (status, words) = cluster.ended();
    assert_eq!(status, UNRECOVERABLE);
    assert!(words.contains("PE 2 was lost when PE 1 had already entered"), "{words}");
}

#[test]
fn a_loss_when_all_are_in_finalize_is_harmless() {
    for mode in [BackupMode::None, BackupMode::Raid5] {
        let mut cluster = Cluster::four(&settings(mode), 0);
        (0..4).for_each(|pe| finalizes(&mut cluster, pe));
        cluster.die(2);
        cluster.event(MembershipEvent::NodeLost { node: 3 });
        assert_eq!(cluster.machine.view().number, ViewNumber(1), "nobody need know");
        for pe in [0, 1] {
            let proc = cluster.proc_of(pe);
            cluster.says(pe, PeMessage::Finalized);
            cluster.event(MembershipEvent::Ended { proc, how: Ended::Exited(0) });
        }
        assert_eq!(cluster.ended(), (0, ""));
    }
}

#[test]
fn a_verdict_ends_the_job_once_every_living_pe_reports_it() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    let words = "unrecoverable: group 0 lost PEs 1,2, parity 1";
    for pe in 0..4 {
        assert!(cluster.end.is_none());
        cluster.says(pe, PeMessage::Verdict { status: 3, words: words.to_string() });
    }
    assert_eq!(cluster.ended(), (3, words));
}

#[test]
fn a_program_that_never_initialises_ends_with_its_own_status() {
    let (node_of, spares) = (vec![0, 0], Vec::new());
    let shape = Shape { node_of, nodes: 1, spares, fabric: Fabric::Shm };
    for (how, status) in [(Ended::Exited(0), 0), (Ended::Exited(5), 5)] {
        let (mut machine, _) = Membership::new(&shape, &settings(BackupMode::None), vec![0; 2]);
        let mut actions = machine.handle(MembershipEvent::Ended { proc: 0, how });
        actions.extend(machine.handle(MembershipEvent::Ended { proc: 1, how }));
        let ends: Vec<i32> = actions
            .iter()
            .filter_map(|action| match action {
                Action::End { status, .. } => Some(*status),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [status]);
    }
}
