//! Recommendations for jobs with a foreseeable answer.

use super::*;

pub(super) fn site() -> SizingInput {
    SizingInput {
        live: (32u64 << 30) as f64,
        pes: 4096,
        nodes: 128,
        mtbf: 6.0 * 3600.0,
        link: 25e9,
        copy: 50e9,
        detection: 15.0,
        memory: None,
        risk: 0.01,
        disk: None,
    }
}

fn best(site: &SizingInput) -> Candidate {
    let choice = choose(site);
    choice.candidates[choice.best.expect("one is possible")].clone()
}

#[test]
fn memory_is_that_of_the_table_of_modes() {
    let choice = choose(&site());
    let of = |mode, group, parity| {
        let is = |c: &&Candidate| (c.mode, c.group, c.parity) == (mode, group, parity);
        choice.candidates.iter().find(is).unwrap().memory
    };
    assert!((of(BackupMode::Raid5, 4, 1) - (2.0 + 2.0 / 3.0)).abs() < 1e-12);
    assert!((of(BackupMode::Rs, 8, 2) - (2.0 + 4.0 / 6.0)).abs() < 1e-12);
    assert_eq!(of(BackupMode::Double, 8, 1), 3.0);
}

#[test]
fn more_losses_take_more_parity() {
    let rare = SizingInput { mtbf: 30.0 * 86_400.0, ..site() };
    let often = SizingInput { mtbf: 1800.0, live: (1u64 << 30) as f64, ..site() };
    assert_eq!((best(&rare).mode, best(&rare).parity), (BackupMode::Raid5, 1));
    assert!(best(&often).parity > 1);
    assert!(best(&often).interval < best(&rare).interval);
}

#[test]
fn little_memory_takes_larger_groups() {
    let node = site().bytes_a_node();
    let tight = best(&SizingInput { memory: Some(2.1 * node), risk: 1.0, ..site() });
    assert!(tight.memory <= 2.1 && tight.group >= 32, "{tight:?}");
    assert_eq!(choose(&SizingInput { memory: Some(1.9 * node), ..site() }).best, None);
}

#[test]
fn without_constraints_the_safest_plan_is_chosen() {
    let choice = choose(&SizingInput { risk: 0.0, ..site() });
    let best = &choice.candidates[choice.best.unwrap()];
    assert!(!choice.safe);
    let possible = choice.candidates.iter().filter(|c| c.possible);
    assert!(possible.into_iter().all(|c| c.chance >= best.chance));
}

/// Jobs from one node per PE to two nodes for all.
#[test]
fn every_size_of_job_has_an_answer() {
    for (pes, nodes) in [(2, 2), (3, 3), (4, 2), (5, 3), (64, 3), (64, 64), (100, 7), (4096, 5)] {
        let found = best(&SizingInput { pes, nodes, risk: 1.0, live: 1e9, ..site() });
        assert!(found.group > found.parity && found.group <= pes, "{pes} on {nodes}: {found:?}");
        assert!(found.lost > 0.0 && found.lost < 1.0);
    }
}

/// A copy is invalid while it is written, which is most of its risk.
#[test]
fn copies_are_less_safe_than_parity() {
    let choice = choose(&site());
    let chance = |mode| choice.candidates.iter().find(|c| c.mode == mode).unwrap().chance;
    assert!(chance(BackupMode::Double) > chance(BackupMode::Raid5));
}
