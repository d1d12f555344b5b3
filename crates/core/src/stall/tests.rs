//! Lines and verdicts: on time, only once, and for every combination of PE activities.

use crate::quantity::CheckpointNumber;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(5);
/// The nodes of the small jobs below; PEs are assigned in turn.
const NODES: usize = 2;

/// A wait and its start time.
#[derive(Clone)]
struct Since {
    wait: Wait,
    begun: MachineTime,
    /// True if the thread keeps polling.
    looks: bool,
}

/// A job as its agents and the launcher see it.
struct Job {
    stalls: Stalls,
    standing: Vec<PeState>,
    waits: Vec<Vec<Since>>,
    stopped: Vec<u32>,
    time: MachineTime,
    serial: u64,
}

const ALL: WaitTarget = WaitTarget::Members { start: 0, stride: 1, size: 1 << 14 };

impl Job {
    fn new(n_pes: usize) -> Job {
        Job {
            stalls: Stalls::new(LIMIT),
            standing: vec![PeState::Running; n_pes],
            waits: vec![Vec::new(); n_pes],
            stopped: Vec::new(),
            time: Duration::from_secs(1000),
            serial: 0,
        }
    }

    /// PE `pe` waits from now on, in addition to its earlier waits.
    fn waits(&mut self, pe: usize, call: &str, whom: WaitTarget) {
        self.serial += 4;
        let all = WaitTarget::Members { start: 0, stride: 1, size: self.standing.len() as u32 };
        let wait = Wait {
            pe: Pe::of(pe),
            serial: (self.waits[pe].len() as u8, self.serial),
            looks: 0,
            lasted: Duration::ZERO,
            call: call.to_owned(),
            whom: if whom == ALL { all } else { whom },
            agreed: CheckpointNumber(0),
        };
        self.waits[pe].push(Since { wait, begun: self.time, looks: true });
    }

    fn goes_on(&mut self, pe: usize) {
        self.waits[pe].clear();
    }

    fn finalizes(&mut self, pe: usize) {
        self.goes_on(pe);
        self.standing[pe] = PeState::Finalizing;
        self.waits(pe, "shmem_finalize", WaitTarget::Finalize);
    }

    fn tick(&mut self) -> Vec<StallAction> {
        self.time += TICK;
        let mut acts = Vec::new();
        for node in 0..NODES {
            let mut waits = Vec::new();
            for since in self.waits.iter_mut().skip(node).step_by(NODES).flatten() {
                since.wait.looks += if since.looks { 50 } else { 0 };
                since.wait.lasted = self.time - since.begun;
                waits.extend((since.wait.lasted >= LIMIT / 4).then(|| since.wait.clone()));
            }
            let here = |pe: &&u32| **pe as usize % NODES == node;
            let stopped = self.stopped.iter().filter(here).map(|&pe| Pe(pe)).collect();
            let report = (node as u32, waits, stopped);
            acts.extend(self.stalls.hear(self.time, report, &self.standing));
            if matches!(acts.last(), Some(StallAction::End(_))) {
                break;
            }
        }
        acts
    }

    /// Runs for some time and returns the actions.
    fn run(&mut self, seconds: u64) -> Vec<StallAction> {
        let mut acts = Vec::new();
        for _ in 0..seconds / TICK.as_secs() {
            acts.extend(self.tick());
            if matches!(acts.last(), Some(StallAction::End(_))) {
                break;
            }
        }
        acts
    }
}

fn say(line: &str) -> StallAction {
    StallAction::Say(line.to_owned())
}

fn end(line: &str) -> StallAction {
    StallAction::End(line.to_owned())
}

#[test]
fn a_stall_is_reported_once_and_a_short_wait_never() {
    let mut job = Job::new(4);
    (0..3).for_each(|pe| job.waits(pe, "shmem_barrier_all", ALL));
    assert_eq!(job.run(55), []);
    let line = "PEs 0-2 wait in shmem_barrier_all for 60 s; PE 3 does not (it computes)";
    assert_eq!(job.run(5), [say(line)]);
    assert_eq!(job.run(3600), []);
    (0..3).for_each(|pe| job.goes_on(pe));
    for _ in 0..100 {
        (0..4).for_each(|pe| job.waits(pe, "shmem_barrier_all", ALL));
        assert_eq!(job.run(50), []);
        (0..4).for_each(|pe| job.goes_on(pe));
        assert_eq!(job.run(5), []);
    }
}

#[test]
fn a_changed_stall_is_reported_after_another_limit() {
    let mut job = Job::new(3);
    job.waits(0, "shmem_barrier_all", ALL);
    assert_eq!(job.run(60).len(), 1);
    job.waits(1, "shmem_checkpoint_all", ALL);
    job.waits[1][0].wait.agreed = CheckpointNumber(4);
    job.stopped = vec![2];
    assert_eq!(job.run(55), []);
    let line = "PE 0 waits in shmem_barrier_all for 120 s, PE 1 waits in shmem_checkpoint_all \
                after checkpoint 4 for 55 s; PE 2 does not (it is stopped)";
    assert_eq!(job.run(5), [say(line)]);
    job.stopped.clear();
    job.waits(2, "shmem_barrier_all", ALL);
    let line = "PEs 0,2 wait in shmem_barrier_all for 180 s, PE 1 waits in shmem_checkpoint_all \
                after checkpoint 4 for 115 s; no PE computes";
    assert_eq!(job.run(60), [say(line)]);
    // No PE is at its end: this may last forever, and the job is not ended for it.
    assert_eq!(job.run(3600), []);
}

#[test]
fn each_stall_is_reported_at_most_once_per_limit() {
    let mut job = Job::new(2);
    for _ in 0..3 {
        job.waits(0, "shmem_sync_all", ALL);
        assert_eq!(job.run(100).len(), 1);
        job.goes_on(0);
        job.run(5);
    }
}

#[test]
fn a_wait_for_a_finalizing_pe_is_a_stall() {
    let mut job = Job::new(4);
    (0..3).for_each(|pe| job.finalizes(pe));
    job.waits(3, "shmem_checkpoint_all", ALL);
    job.waits[3][0].wait.agreed = CheckpointNumber(7);
    assert_eq!(job.run(55), []);
    let line = "unrecoverable: PE 3 waits in shmem_checkpoint_all after checkpoint 7 for 60 s, and \
                PEs 0-2, for which it waits, are in shmem_finalize";
    assert_eq!(job.run(5), [end(line)]);
    // It finalizes after the line was printed, and is given time.
    let mut job = Job::new(3);
    (0..2).for_each(|pe| job.waits(pe, "shmem_barrier_all", ALL));
    assert_eq!(job.run(600).len(), 1);
    job.finalizes(2);
    let line = "PEs 0,1 wait in shmem_barrier_all for 605 s; PE 2 does not (it is in \
                shmem_finalize)";
    assert_eq!(job.run(40), [say(line)]);
    let line = "unrecoverable: PEs 0,1 wait in shmem_barrier_all for 645 s, and PE 2, for which \
                they wait, is in shmem_finalize";
    assert_eq!(job.run(5), [end(line)]);
}

#[test]
fn a_pe_that_has_not_polled_again_does_not_end_the_job() {
    for asleep in 0..3 {
        let mut job = Job::new(3);
        (0..2).for_each(|pe| job.waits(pe, "shmem_barrier_all", ALL));
        job.finalizes(2);
        job.waits[asleep][0].looks = false;
        let line = "PEs 0,1 wait in shmem_barrier_all for 60 s; PE 2 does not (it is in \
                    shmem_finalize)";
        assert_eq!(job.run(600), [say(line)]);
        job.waits[asleep][0].looks = true;
        assert!(matches!(job.run(60)[..], [StallAction::End(_)]));
    }
}

#[test]
fn a_busy_pe_in_finalize_may_take_part_in_a_recovery() {
    let mut job = Job::new(2);
    job.waits(0, "shmem_restart_pes", ALL);
    job.standing[1] = PeState::Finalizing;
    let line = "PE 0 waits in shmem_restart_pes for 60 s; PE 1 does not (it is in shmem_finalize)";
    assert_eq!(job.run(600), [say(line)]);
}

#[test]
fn finalize_alone_is_no_stall() {
    let mut job = Job::new(4);
    (0..3).for_each(|pe| job.finalizes(pe));
    assert_eq!(job.run(3600), []);
    job.stopped = vec![3];
    assert_eq!(job.run(3600), []);
}

#[test]
fn a_team_concerns_its_members_only() {
    let team = WaitTarget::Members { start: 1, stride: 2, size: 3 };
    let mut job = Job::new(6);
    for pe in [0, 2, 4] {
        job.finalizes(pe);
    }
    job.waits(1, "shmem_team_sync", team);
    job.waits(3, "shmem_team_sync", team);
    let line = "PEs 1,3 wait in shmem_team_sync of PEs 1,3,5 for 60 s; PE 5 does not (it computes)";
    assert_eq!(job.run(600), [say(line)]);
    job.waits(5, "shmem_int_sum_reduce", team);
    assert_eq!(job.run(600).len(), 1); // another picture, and none of these PEs is at its end
    job.finalizes(5);
    assert!(matches!(job.run(600)[..], [StallAction::Say(_), StallAction::End(_)]));
    // The wait of a team for a PE that waits for all is a wait for all.
    let mut job = Job::new(6);
    (0..4).step_by(2).for_each(|pe| job.finalizes(pe));
    job.waits(1, "shmem_team_sync", team);
    job.waits(3, "shmem_barrier_all", ALL);
    job.waits(5, "shmem_barrier_all", ALL);
    assert!(matches!(job.run(600)[..], [StallAction::Say(_)])); // PE 4 computes
    job.waits(4, "shmem_barrier_all", ALL);
    assert!(matches!(job.run(600)[..], [StallAction::End(_)]));
}

#[test]
fn a_pe_of_which_one_thread_can_continue_can_move() {
    let mut job = Job::new(2);
    job.finalizes(1);
    job.waits(0, "shmem_barrier_all", ALL);
    job.waits(0, "shmem_long_wait_until", WaitTarget::Anyone);
    let line = "PE 0 waits in shmem_barrier_all for 60 s, PE 0 waits in shmem_long_wait_until for \
                60 s; PE 1 does not (it is in shmem_finalize)";
    assert_eq!(job.run(600), [say(line)]);
}

#[test]
fn reports_of_a_lost_node_do_not_count() {
    let mut job = Job::new(4);
    job.waits(1, "shmem_barrier_all", ALL);
    job.run(30);
    job.stalls.forget(1);
    job.goes_on(1);
    job.standing[1] = PeState::Lost;
    job.waits(0, "shmem_restart_pes", ALL);
    let line = "PE 0 waits in shmem_restart_pes for 60 s; PEs 2,3 do not (they compute), PE 1 does \
                not (it is being replaced)";
    assert_eq!(job.run(60), [say(line)]);
}

/// The remaining PEs meet without it, so no PE has a reason to wait for it.
#[test]
fn no_pe_waits_for_a_hole() {
    let mut job = Job::new(4);
    job.standing[2] = PeState::Hole;
    job.waits(0, "shmem_barrier_all", ALL);
    job.waits(1, "shmem_barrier_all", ALL);
    let line = "PEs 0,1 wait in shmem_barrier_all for 60 s; PE 3 does not (it computes)";
    assert_eq!(job.run(60), [say(line)]);
    job.finalizes(3);
    let end = "unrecoverable: PEs 0,1 wait in shmem_barrier_all";
    let ends = |act: &StallAction| matches!(act, StallAction::End(words) if words.starts_with(end));
    assert!(job.run(60).iter().any(ends));
}

/// Reports from agents are not trusted blindly.
#[test]
fn nonsense_in_a_report_is_harmless() {
    let mut job = Job::new(2);
    for whom in [
        WaitTarget::Members { start: -5, stride: i32::MIN, size: u32::MAX },
        WaitTarget::Members { start: i32::MAX, stride: i32::MAX, size: u32::MAX },
        WaitTarget::Members { start: 0, stride: 0, size: 0 },
    ] {
        job.waits(0, "", whom);
    }
    job.waits[0][1].wait.pe = Pe(77);
    job.stopped = vec![1 << 30];
    assert_eq!(job.run(60).len(), 1);
}

#[test]
fn before_the_job_is_complete_a_line_names_missing_pes() {
    let mut stalls = Stalls::new(LIMIT);
    let mut standing = vec![PeState::Starting; 3];
    let mut look =
        |seconds, standing: &[PeState]| stalls.look(Duration::from_secs(seconds), standing);
    assert_eq!(look(100, &standing), None);
    standing[..2].fill(PeState::Joining);
    assert_eq!((look(200, &standing), look(259, &standing)), (None, None));
    let line = "PEs 0,1 wait in shmem_init for 60 s; PE 2 does not (it has not called shmem_init)";
    assert_eq!(look(260, &standing), Some(say(line)));
    assert_eq!(look(900, &standing), None);
    let mut off = Stalls::new(Duration::ZERO);
    assert_eq!((off.look(Duration::ZERO, &standing), off.look(LIMIT, &standing)), (None, None));
}

/// The activities of a PE in the combinations below.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Barrier,
    Checkpoint,
    /// A wait with its neighbour, in a ring.
    Pair,
    Until,
    Computes,
    Stopped,
    StoppedInBarrier,
    Lost,
    Finalizes,
    Ended,
}

const ROLES: [Role; 10] = [
    Role::Barrier,
    Role::Checkpoint,
    Role::Pair,
    Role::Until,
    Role::Computes,
    Role::Stopped,
    Role::StoppedInBarrier,
    Role::Lost,
    Role::Finalizes,
    Role::Ended,
];

const PES: usize = 4;

/// Returns the PEs that must make a matching call before PE `pe` continues.
fn awaited(pe: usize, role: Role) -> Option<Vec<usize>> {
    match role {
        Role::Barrier | Role::Checkpoint => Some((0..PES).collect()),
        Role::Pair if pe == PES - 1 => Some(vec![pe, 0]),
        Role::Pair => Some(vec![pe, pe + 1]),
        _ => None,
    }
}

/// Returns true if a set of PEs wait only for each other and for PEs that are over, at least one of
/// them for one of the latter; tries every set of PEs.
fn never_ends(roles: &[Role]) -> bool {
    let over = |pe: usize| matches!(roles[pe], Role::Finalizes | Role::Ended);
    (1u32..1 << PES).any(|set| {
        let inside = |pe: usize| set >> pe & 1 == 1;
        let group = |pe: usize| awaited(pe, roles[pe]);
        let closed = |pe| group(pe).is_some_and(|all| all.iter().all(|&p| inside(p) || over(p)));
        let members = || (0..PES).filter(|&pe| inside(pe));
        members().all(closed) && members().any(|pe| group(pe).unwrap().into_iter().any(over))
    })
}

fn play(job: &mut Job, pe: usize, role: Role) {
    let n = PES as i32;
    match role {
        Role::Barrier | Role::StoppedInBarrier => job.waits(pe, "shmem_barrier_all", ALL),
        Role::Checkpoint => job.waits(pe, "shmem_checkpoint_all", ALL),
        Role::Pair => {
            let stride = if pe == PES - 1 { 1 - n } else { 1 };
            let whom = WaitTarget::Members { start: pe as i32, stride, size: 2 };
            job.waits(pe, "shmem_team_sync", whom);
        }
        Role::Until => job.waits(pe, "shmem_int_wait_until", WaitTarget::Anyone),
        Role::Finalizes => job.finalizes(pe),
        Role::Lost => job.standing[pe] = PeState::Lost,
        Role::Ended => job.standing[pe] = PeState::Ended,
        Role::Computes | Role::Stopped => {}
    }
    if matches!(role, Role::Stopped | Role::StoppedInBarrier) {
        job.stopped.push(pe as u32);
    }
}

#[test]
fn every_combination_has_its_line_or_its_end() {
    let mut ends = 0;
    for number in 0..ROLES.len().pow(PES as u32) {
        let roles: Vec<Role> =
            (0..PES).map(|pe| ROLES[number / ROLES.len().pow(pe as u32) % ROLES.len()]).collect();
        let mut job = Job::new(PES);
        roles.iter().enumerate().for_each(|(pe, role)| play(&mut job, pe, *role));
        let acts = job.run(200);
        let waits = |role: &Role| {
            matches!(role, Role::Barrier | Role::Checkpoint | Role::Pair | Role::Until)
        };
        match (never_ends(&roles), roles.iter().any(waits)) {
            // Another wait may have been reported one report earlier.
            (true, _) => assert!(
                matches!(
                    acts[..],
                    [StallAction::End(_)] | [StallAction::Say(_), StallAction::End(_)]
                ),
                "{roles:?}: {acts:?}"
            ),
            (_, true) => assert!(matches!(acts[..], [StallAction::Say(_)]), "{roles:?}: {acts:?}"),
            _ => assert_eq!(acts, [], "{roles:?}"),
        }
        ends += usize::from(never_ends(&roles));
    }
    assert!((100..5000).contains(&ends), "{ends}");
}
