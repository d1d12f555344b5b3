//! Tests of the status as text, in the view and as JSON.

use super::*;
use raidshmem_core::message::RecoveryStep;
use raidshmem_core::placement::survival::FatalDomain;

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn title(mode: BackupMode, group_of: Vec<usize>) -> Title {
    let program = "./jacobi 64".to_owned();
    Title { job: 7, program, since: SystemTime::UNIX_EPOCH, mode, group_of }
}

/// Returns a job with `each` PEs per node, all alive.
fn job(title: &Title, each: usize) -> Picture<'_> {
    let count = title.group_of.len();
    let pe = |pe: usize| PeNow {
        node: (pe / each) as u32,
        incarnation: Incarnation(0),
        state: PeState::Running,
        stopped: false,
        pid: Some(100 + pe as u32),
        calls: Vec::new(),
    };
    let node = |node: usize| {
        let (name, agent) = (format!("node {node}"), Some(10 + node as u32));
        (node as u32, NodeNow { name, agent, spares: Vec::new(), sleeping: 0, drained: false })
    };
    Picture {
        title,
        now: at(90.0),
        nodes: (0..count.div_ceil(each)).map(node).collect(),
        pes: (0..count).map(pe).collect(),
        spares: 0,
        figures: Figures::default(),
        survival: None,
    }
}

#[test]
fn a_job_is_shown_with_all_its_processes() {
    let title = title(BackupMode::Raid5, vec![0, 1, 0, 1]);
    let mut job = job(&title, 2);
    job.pes[1].stopped = true;
    job.pes[2].calls.push("shmem_barrier_all".to_owned());
    job.nodes.get_mut(&1).unwrap().agent = None;
    job.nodes.get_mut(&0).unwrap().spares.push(55);
    job.spares = 1;
    let figures = &mut job.figures;
    (figures.checkpoints, figures.last) = (27, Some((28, at(88.8))));
    (figures.every, figures.took) = (Some(at(3.4)), Some(at(0.012)));
    (figures.processes, figures.nodes) = (2, 1);
    let text = text(&job);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "job 7: ./jacobi 64",
            "since 1970-01-01T00:00:00Z, for 1m 30s, mode raid5",
            "4 PEs on 2 nodes: 3 alive, 1 stopped; 1 spare",
            "27 checkpoints, the last (28) 1.2 s ago, one every 3.40 s, 12.0 ms each",
            "so far: lost 2 PEs and 1 node",
            "group 0: PEs 0,2, whole",
            "group 1: PEs 1,3, whole",
            "node 0: agent is process 10",
            "  PE 0: process 100, alive, incarnation 0",
            "  PE 1: process 101, stopped, incarnation 0",
            "  spare: process 55",
            "node 1: no answer",
            "  PE 2: process 102, alive, incarnation 0, waits in shmem_barrier_all",
            "  PE 3: process 103, alive, incarnation 0",
        ]
    );
}

#[test]
fn a_recovery_shows_its_step_and_the_remaining_work() {
    let title = title(BackupMode::Rs, vec![0; 4]);
    let mut job = job(&title, 1);
    let set = |job: &mut Picture, progress| job.figures.recovery = Some((at(88.0), progress));
    job.nodes.remove(&2);
    let lost = &mut job.pes[2];
    (lost.state, lost.pid) = (PeState::Lost, None);
    set(&mut job, RebuildProgress::default());
    let shown = text(&job);
    for line in [
        "4 PEs on 3 nodes: 3 alive, 1 being replaced\n",
        "recovery, for 2.0 s: a process for PE 2 is started\n",
        "group 0: PEs 0-3, without PE 2\n",
        "PE 2: being replaced, incarnation 0, without a node yet\n",
    ] {
        assert!(shown.contains(line), "`{line}` was expected in\n{shown}");
    }
    job.pes[2].state = PeState::Recovering;
    let last = |job: &Picture| view(job).lines.pop().unwrap();
    let waits = "recovery, for 2.0 s: waits until all PEs are in a checkpoint or restart";
    assert_eq!(last(&job), waits);
    set(
        &mut job,
        RebuildProgress { step: Some(RecoveryStep::Verify), ..RebuildProgress::default() },
    );
    assert_eq!(last(&job), "recovery, for 2.0 s: checking the surviving data");
    let (step, bytes) = (Some(RecoveryStep::Rebuild), Some((12 << 20, 40 << 20)));
    let (rate, left) = (Some(f64::from(14 << 20)), Some(at(2.0)));
    set(&mut job, RebuildProgress { step, bytes, rate, left });
    assert_eq!(last(&job), "recovery, for 2.0 s: rebuilding lost data");
    let words = "30 %, 12.0 MiB of 40.0 MiB, 14.0 MiB a second, 2.0 s left";
    let bar = view(&job).bar.unwrap();
    assert_eq!((bar.done, bar.of, bar.words.as_str()), (12 << 20, 40 << 20, words));
    let line = format!("\nrecovery, for 2.0 s: rebuilding lost data: {words}\n");
    assert!(text(&job).contains(&line), "{}", text(&job));
}

#[test]
fn a_node_whose_loss_would_end_the_job_is_shown() {
    let title = title(BackupMode::Raid5, vec![0; 4]);
    let mut job = job(&title, 1);
    let has = |job: &Picture, line: &str| {
        (text(job).lines().any(|l| l == line), view(job).lines.iter().any(|l| l == line))
    };
    job.survival = Some(Survival::default());
    let whole = "survives the loss of any one node or domain";
    assert_eq!(has(&job, whole), (true, false), "the view is short");
    let fatal = vec![FatalDomain {
        kind: "node".to_owned(),
        domain: 1,
        name: "b".to_owned(),
        group: 0,
        members: 2,
    }];
    job.survival = Some(Survival { fatal, mends: vec!["x".to_owned()], ..Survival::default() });
    let short = "does not survive the loss of b (2 members of group 0 are in b)";
    assert_eq!(has(&job, short), (false, true));
    assert!(has(&job, &format!("{short}; to survive it, x")).0, "{}", text(&job));
}

#[test]
fn the_view_shows_spares() {
    let title = title(BackupMode::Raid5, vec![0, 0]);
    let mut job = job(&title, 1);
    let name = "node 2".to_owned();
    let (agent, spares) = (None, Vec::new());
    job.nodes.insert(2, NodeNow { name, agent, spares, sleeping: 2, drained: true });
    job.nodes.get_mut(&1).unwrap().sleeping = 1;
    let lines = view(&job).lines;
    assert_eq!(
        lines[1..4],
        ["node 0: PE 0 alive", "node 1: PE 1 alive; 1 spare", "node 2: 2 spares; being drained"]
    );
}

#[test]
fn the_view_of_a_large_job_is_short() {
    let title = title(BackupMode::Raid5, (0..1000).map(|pe| pe / 10).collect());
    let mut job = job(&title, 10);
    let lines = view(&job).lines;
    assert_eq!(
        lines,
        [
            "1000 PEs on 100 nodes: 1000 alive; 1m 30s",
            "100 groups, mode raid5: whole",
            "no checkpoint yet",
        ]
    );
    let lose = |pe: &mut PeNow| pe.state = PeState::Recovering;
    lose(&mut job.pes[15]);
    assert_eq!(
        view(&job).lines[1..3],
        [
            "node 1: PEs 10-14,16-19 alive, PE 15 being replaced",
            "group 1: PEs 10-19, without PE 15"
        ]
    );
    job.pes.iter_mut().step_by(10).for_each(lose);
    let lines = view(&job).lines;
    assert_eq!(lines.len(), 1 + LINES + 3, "{lines:?}");
    assert_eq!(lines[1 + LINES], "92 nodes more with PEs that are not alive");
    assert_eq!(lines[2 + LINES], "100 groups: 100 not whole");
    assert_eq!(view(&self::job(&self::title(BackupMode::None, vec![0]), 1)).lines.len(), 3);
}
