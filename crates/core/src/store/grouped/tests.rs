//! Tests of the groups that processes with different histories find.

use super::*;
use crate::quantity::Pe;
use crate::settings::BackupMode;
use crate::view::Member;

fn of(known: &[(u64, u64)]) -> GroupedCheckpoints {
    let one = |&(number, places)| Grouped {
        number: CheckpointNumber(number),
        places: ViewNumber(places),
    };
    known.iter().map(one).collect()
}

#[test]
fn each_checkpoint_has_its_own_groups() {
    let mut all = of(&[(7, 2)]); // a PE that has not begun the next one
    all.add(&of(&[(8, 5), (7, 2)]));
    let places = |number| all.places_of(CheckpointNumber(number)).map(|view| view.0);
    assert_eq!([7, 8, 9].map(places), [Some(2), Some(5), None]);
}

/// A PE that joined every view and a substitute that only got the moves find equal groups,
/// whether the checkpoint decided on is before or after the change.
#[test]
fn a_pe_that_missed_a_change_finds_both_groupings() {
    let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
    let job = (&settings, &Domains::default());
    let member = |&node: &u32| Member::first(node);
    let view = |number, nodes: [u32; 4]| {
        let pes = nodes.iter().map(member).collect();
        View { number: ViewNumber(number), pes, local: false }
    };
    let start = vec![0, 1, 2, 3];
    let node_of = [0, 1, 2, 3];
    let known = |moves: &[Move]| {
        let first = Protection::new(&settings, &node_of, job.1).unwrap();
        KnownGroups::new(PlaceHistory::new(start.clone(), moves.to_vec()), first, None)
    };
    let mut saw = known(&[]);
    saw.note_places(&view(1, [0, 1, 2, 3]));
    saw.note_places(&view(4, [0, 1, 1, 3]));
    let (first, at) = (saw.last().unwrap(), (CheckpointNumber(7), ViewNumber(4)));
    assert_eq!(saw.choose(job, &first, at, false).places, ViewNumber(0), "they must not change");
    let chosen = saw.choose(job, &first, at, true);
    assert_eq!((chosen.places, chosen.shapes.len()), (ViewNumber(4), 2));
    let brought = saw.bring([].into_iter());
    assert_eq!(brought, of(&[(6, 0), (7, 4)]));
    for (number, groups) in [(6, &first), (7, &chosen)] {
        let moves = [Move { view: ViewNumber(3), pe: Pe(2), node: 1 }];
        let decided = known(&moves).decide(job, &brought, CheckpointNumber(number));
        assert_eq!((&decided.plan, decided.places), (&groups.plan, groups.places));
    }
    assert_eq!(saw.decide(job, &brought, CheckpointNumber(6)).places, ViewNumber(0));
    assert_eq!(saw.bring([].into_iter()), of(&[(6, 0)]), "what was begun is given up");
    saw.choose(job, &first, at, true);
    saw.keep(&first, at);
    assert_eq!(saw.bring([].into_iter()), of(&[(6, 0), (7, 0)]));
    assert_eq!(saw.choose(job, &first, at, true).places, ViewNumber(0), "refused in this view");
}

/// A job that began from a set decodes it with the set's groups, and gets its own at once,
/// although no PE has moved.
#[test]
fn a_set_is_decoded_with_its_own_groups() {
    let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
    let (domains, node_of) = (Domains::default(), [0, 1, 2, 3]);
    let job = (&settings, &domains);
    let pairs = [[0, 1], [2, 3]].map(|pair| pair.map(Pe).to_vec()).to_vec();
    let known = || {
        let start = Protection::new(&settings, &node_of, &domains).unwrap();
        let of_set = Protection::of_set(&settings, pairs.clone(), &node_of, &domains).unwrap();
        KnownGroups::new(PlaceHistory::new(vec![0, 1, 2, 3], Vec::new()), start, of_set)
    };
    let (number, mut resumed) = (CheckpointNumber(40), known());
    let loaded = Grouped { number, places: ViewNumber::OF_SET };
    let all = resumed.bring([loaded].into_iter());
    let decided = resumed.decide(job, &all, number);
    assert_eq!((decided.places, decided.shapes.len()), (ViewNumber::OF_SET, 2));
    let healed = resumed.heal(job, &decided, (number, ViewNumber(1))).expect("one group");
    assert_eq!((healed.places, healed.shapes.len()), (ViewNumber(1), 1));
    // Until all have agreed on them, a substitute may have to decode with those of the set.
    let brought = resumed.bring(std::iter::empty());
    assert_eq!(known().decide(job, &brought, number).plan, decided.plan);
    assert_eq!(known().decide(job, &brought, number.healed()).plan, healed.plan);
    let whole = resumed.bring([Grouped { number, places: ViewNumber(0) }].into_iter());
    assert_eq!(known().decide(job, &whole, number.next()).places, ViewNumber(0));
}

/// With local rollback the groups change at the program's next checkpoint, and a PE that rolls
/// back to it locally, in whatever memory, finds them in the records of the others.
#[test]
fn a_local_rollback_finds_the_groups_in_records() {
    let (rollback, backup_mode) = (Rollback::Local, BackupMode::Raid5);
    let settings = Settings { rollback, backup_mode, ..Settings::default() };
    let (domains, node_of) = (Domains::default(), [0, 1, 2, 3]);
    let job = (&settings, &domains);
    let known = || {
        let start = Protection::new(&settings, &node_of, &domains).unwrap();
        let moves = vec![Move { view: ViewNumber(3), pe: Pe(2), node: 1 }];
        KnownGroups::new(PlaceHistory::new(vec![0, 1, 2, 3], moves), start, None)
    };
    let (mut saw, number) = (known(), CheckpointNumber(4));
    let first = saw.last().unwrap();
    let at = |number| (number, ViewNumber(4));
    assert!(saw.heal(job, &first, at(number.previous())).is_none(), "logs begin later");
    let chosen = saw.choose(job, &first, at(number), true);
    assert_eq!((chosen.places, chosen.shapes.len()), (ViewNumber(4), 2));
    let records = [(3, 0), (4, 4), (4, 4), (3, 0)];
    let records = || {
        records.into_iter().map(|(number, places)| Grouped {
            number: CheckpointNumber(number),
            places: ViewNumber(places),
        })
    };
    let found = |number| known().recorded(job, records(), number);
    assert_eq!((&found(number).plan, found(number).places), (&chosen.plan, chosen.places));
    assert_eq!(found(number.previous()).places, ViewNumber(0));
    let mut renewed = known();
    renewed.recorded(job, records(), number);
    assert_eq!(renewed.last().map(|last| last.places), Some(ViewNumber(4)), "it goes on so");
}

/// A move that puts two of a group on one node is healed once; a harmless one is not.
#[test]
fn a_recovery_heals_only_where_fewer_losses_end_the_job() {
    let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
    let job = (&settings, &Domains::default());
    let first = Protection::new(&settings, &[0, 1, 2, 3], job.1).unwrap();
    let places = PlaceHistory::new(vec![0, 1, 2, 3], Vec::new());
    let mut known = KnownGroups::new(places, first, None);
    let view = |number, nodes: [u32; 4]| {
        let pes = nodes.iter().map(|&node| Member::first(node)).collect();
        View { number: ViewNumber(number), pes, local: false }
    };
    let last = known.last().unwrap();
    let at = |view| (CheckpointNumber(3), ViewNumber(view));
    known.note_places(&view(2, [0, 1, 4, 3]));
    assert!(known.heal(job, &last, at(2)).is_none(), "a spare took the PE");
    known.note_places(&view(4, [0, 1, 1, 3]));
    let healed = known.heal(job, &last, at(4)).expect("two of a group share a node");
    assert_eq!(healed.places, ViewNumber(4));
    known.agree(Arc::clone(&healed));
    assert!(known.heal(job, &healed, at(4)).is_none(), "they are healed");
    let brought = known.bring(std::iter::empty());
    let places = |number: CheckpointNumber| brought.places_of(number);
    assert_eq!(places(at(4).0), Some(ViewNumber(0)), "the old groups may be decided on");
    assert_eq!(places(at(4).0.healed()), Some(ViewNumber(4)));
}

/// A PE whose encoding in new groups was refused may be a step behind one that has begun the
/// next checkpoint: the one that stands is not dropped for it.
#[test]
fn an_abandoned_encoding_takes_no_place() {
    let places = ViewNumber(0);
    let of = |number| Grouped { number, places };
    let (four, five) = (CheckpointNumber(4), CheckpointNumber(5));
    let all = [of(four), of(four.healed()), of(five)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let known: GroupedCheckpoints = order.map(|at| all[at]).into_iter().collect();
        assert_eq!(known, [of(four), of(five)].into_iter().collect(), "{order:?}");
    }
}

/// One PE lags behind, one has abandoned an attempt, and one knows no checkpoint.
#[test]
fn knowledge_of_pes_is_combined_in_any_order() {
    let all = [of(&[(7, 2), (6, 0)]), of(&[(8, 5), (7, 2)]), of(&[(8, 3), (7, 2)]), of(&[])];
    for first in 0..4 {
        for second in 0..4 {
            let mut there = all[first];
            there.add(&all[second]);
            let mut back = GroupedCheckpoints::read(all[second].words());
            back.add(&GroupedCheckpoints::read(all[first].words()));
            assert_eq!((there, there), (back, GroupedCheckpoints::read(there.words())));
            all.iter().for_each(|other| there.add(other));
            assert_eq!(there, of(&[(8, 5), (7, 2)]));
        }
    }
}
