//! Tests of every way in which three hosts can hold the files of three PEs.

use raidshmem_core::disk::Entry;
use raidshmem_core::placement::Domains;
use raidshmem_core::settings::{BackupMode, Settings};
use raidshmem_core::store::protection::Protection;

use super::*;
use crate::code::Code;
use crate::manifest::Parity;

const HOMES: [u32; 3] = [0, 1, 2];
const N: CheckpointNumber = CheckpointNumber(40);

fn protection(mode: BackupMode, parity: usize, pes: usize) -> Protection {
    let settings = Settings { backup_mode: mode, parity, ..Settings::default() };
    let nodes: Vec<usize> = (0..pes).collect();
    let made = Protection::new(&settings, &nodes, &Domains::default());
    made.expect("they can be grouped").expect("there is parity")
}

const RAID5: Option<Scheme> = Some(Scheme::Raid5);
const RS: Option<Scheme> = Some(Scheme::Rs { parity: 2 });

fn entry(content: Content, pe: usize) -> Entry {
    Entry { len: 100 + pe as u64, sum: content as u32 }
}

fn manifest(job: u64, protection: &Protection) -> Manifest {
    let pes = protection.plan.of.len();
    let entries = |content| (0..pes).map(|pe| entry(content, pe)).collect::<Vec<Entry>>();
    let (code, seconds, heap_len) = (Code::of(protection), 1, 1 << 20);
    let parity = Some(Parity { code, entries: entries(Content::Parity) });
    let (mode, program, entries) = ("raid5".into(), "p".into(), entries(Content::Data));
    let (raw, bases, pages, number) = (None, Vec::new(), Vec::new(), N);
    Manifest { job, number, heap_len, seconds, mode, program, entries, raw, bases, parity, pages }
}

/// Returns a folder with the files of these PEs.
fn held(manifest: &Manifest, set: Option<u64>, pes: &[usize]) -> Held {
    let of = |content| move |&pe: &usize| (content, Pe::of(pe), entry(content, pe));
    let (data, parity) = (pes.iter().map(of(Content::Data)), pes.iter().map(of(Content::Parity)));
    let (job, number) = (manifest.job, manifest.number);
    let folder = format!("{job}-{pes:?}");
    let set = set.map(|set| (set, manifest.encode()));
    Held { folder, job, number, set, files: data.chain(parity).collect() }
}

fn newest(hosts: &[Vec<Held>]) -> Result<Chosen, String> {
    choose(hosts, &wanted(None, RAID5, &[]))
}

/// Returns a search that is not limited to the sets of one job.
fn wanted<'a>(
    set: Option<u64>,
    scheme: Option<Scheme>,
    damages: &'a [(usize, Damage)],
) -> Wanted<'a> {
    Wanted { set, home: &HOMES, scheme, damages, may_be: &|_| true, are_nodes: false }
}

/// One group of three PEs, by its places.
const ONE: Option<[&[u32]; 1]> = Some([&[0, 2, 1]]);

fn groups<const N: usize>(all: [&[u32]; N]) -> Vec<Vec<Pe>> {
    all.map(|group| group.iter().copied().map(Pe).collect()).to_vec()
}

/// Returns the most PEs that can be at home, by trying every order of the hosts.
fn most_at_home(holds: &[Vec<usize>]) -> usize {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let at_home = |order: &[usize; 3]| (0..3).filter(|&pe| holds[order[pe]].contains(&pe)).count();
    orders.iter().map(at_home).max().expect("six orders")
}

#[test]
fn whatever_the_disks_hold_as_few_as_can_be_are_lost_and_as_many_at_home() {
    let manifest = manifest(7, &protection(BackupMode::Raid5, 1, 3));
    for pattern in 0u32..1 << 9 {
        let holds: Vec<Vec<usize>> = (0..3)
            .map(|host| (0..3).filter(|pe| pattern >> (3 * host + pe) & 1 == 1).collect())
            .collect();
        let of_host = |pes: &Vec<usize>| match pes[..] {
            [] => Vec::new(),
            _ => vec![held(&manifest, Some(5), pes)],
        };
        let hosts: Vec<Vec<Held>> = holds.iter().map(of_host).collect();
        let lost: Vec<Pe> =
            Pe::all(3).filter(|pe| !holds.iter().flatten().any(|it| *it == pe.at())).collect();
        let chosen = newest(&hosts);
        if lost.len() > 1 {
            assert!(chosen.is_err(), "{holds:?}");
            continue;
        }
        let chosen = chosen.unwrap_or_else(|why| panic!("{holds:?}: {why}"));
        assert_eq!(
            (&chosen.lost, chosen.set, chosen.groups),
            (&lost, 5, ONE.map(groups)),
            "{holds:?}"
        );
        let mut all = chosen.host_of.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "{holds:?}");
        let at_home = |pe: &Pe| {
            let node = chosen.node_of[pe.at()];
            assert!(lost.contains(pe) || holds[chosen.host_of[node as usize]].contains(&pe.at()));
            node == HOMES[pe.at()] && !lost.contains(pe)
        };
        assert_eq!(Pe::all(3).filter(at_home).count(), most_at_home(&holds), "{holds:?}");
    }
}

#[test]
fn any_order_of_the_hosts_is_taken_and_that_which_is_stays() {
    let manifest = manifest(7, &protection(BackupMode::Raid5, 1, 3));
    let host = |pe: usize| vec![held(&manifest, Some(5), &[pe])];
    let host_of = |hosts: &[Vec<Held>]| newest(hosts).expect("it is whole").host_of;
    assert_eq!(host_of(&[host(2), host(0), host(1)]), [1, 2, 0]);
    assert_eq!(host_of(&[host(0), Vec::new(), host(2)]), [0, 1, 2]);
    assert_eq!(host_of(&[host(2), Vec::new(), host(0)]), [2, 1, 0]);
    // A disk that all hosts see.
    let all: Vec<Held> = (0..3).flat_map(host).collect();
    let chosen = newest(&[all.clone(), all.clone(), all]).expect("it is whole");
    assert_eq!((chosen.host_of, chosen.node_of), (vec![0, 1, 2], HOMES.to_vec()));
    assert_eq!(chosen.folders, [["7-[0]"], ["7-[1]"], ["7-[2]"]]);
}

#[test]
fn a_set_exists_only_if_a_node_has_its_manifest() {
    let manifest = manifest(7, &protection(BackupMode::Raid5, 1, 3));
    let hosts = |sets: [Option<u64>; 3]| -> Vec<Vec<Held>> {
        (0..3).map(|pe| vec![held(&manifest, sets[pe], &[pe])]).collect()
    };
    let chosen = newest(&hosts([None, Some(9), None])).expect("one is enough");
    assert_eq!((chosen.set, chosen.lost.len()), (9, 0));
    let none = "there is no checkpoint on the disk of any node";
    assert_eq!(newest(&hosts([None; 3])).unwrap_err(), none);
}

#[test]
fn the_newest_set_that_is_whole_enough_is_taken_or_the_one_that_is_named() {
    let of = protection(BackupMode::Raid5, 1, 3);
    let (old, new) = (manifest(7, &of), manifest(8, &of));
    let host = |pe: usize| vec![held(&old, Some(5), &[pe])];
    let mut hosts = vec![host(0), host(1), host(2)];
    hosts[1].push(held(&new, Some(6), &[1]));
    let chosen = newest(&hosts).expect("the older one is whole");
    assert_eq!((chosen.set, chosen.manifest.job), (5, 7));
    let why = "unrecoverable: group 0 lost PEs 0,2, parity 1";
    assert_eq!(chosen.passed, [format!("set 6 is skipped: {why}")]);
    let named = |set| choose(&hosts, &wanted(Some(set), RAID5, &[])).map(|it| it.manifest.job);
    assert_eq!(named(5), Ok(7));
    assert_eq!(named(6), Err(format!("set 6: {why}")));
    assert_eq!(named(4), Err("expected @6 or @5".to_owned()));
}

#[test]
fn mismatches_are_reported() {
    let manifest = manifest(7, &protection(BackupMode::Raid5, 1, 3));
    let hosts: Vec<Vec<Held>> = (0..3).map(|pe| vec![held(&manifest, Some(5), &[pe])]).collect();
    let of = |home: &[u32], scheme, hosts: &[_]| {
        choose(hosts, &Wanted { home, ..wanted(Some(5), scheme, &[]) })
    };
    let two = of(&[0, 1], RAID5, &hosts).unwrap_err();
    assert_eq!(two, "set 5: it is of 3 PEs; expected -n 3");
    // Another mode needs all data, and no parity.
    let chosen = of(&HOMES, RS, &hosts).expect("all data is there");
    assert!(chosen.groups.is_none() && chosen.lost.is_empty());
    let without: Vec<Vec<Held>> = vec![hosts[0].clone(), Vec::new(), hosts[2].clone()];
    let why = of(&HOMES, RS, &without).unwrap_err();
    assert_eq!(why, "set 5: no disk has PE 1, and its parity is of another mode");
    // A missing parity file is a loss too.
    let mut bare = without;
    bare[0][0].files.retain(|&(content, ..)| content == Content::Data);
    let why = of(&HOMES, RAID5, &bare).unwrap_err();
    assert!(why.contains("unrecoverable: group 0 lost"), "{why}");
    // A file of another set of that checkpoint does not count.
    let mut other = hosts;
    other[1][0].files[0].2.sum ^= 64;
    assert_eq!(of(&HOMES, RAID5, &other).expect("it is made up for").lost, [Pe(1)]);
}

/// A set of other groups than the job has is decoded with its own.
#[test]
fn a_set_of_other_groups_is_taken_with_them() {
    let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
    let pairs = || groups([&[3, 0], &[2, 1]]);
    let of = Protection::of_set(&settings, pairs(), &[0, 1, 2, 3], &Domains::default());
    let manifest = manifest(7, &of.expect("pairs").expect("there is parity"));
    let host = |pe: usize| vec![held(&manifest, Some(5), &[pe])];
    let taken = |lost: &[usize]| {
        let of_host = |pe| if lost.contains(&pe) { Vec::new() } else { host(pe) };
        let hosts: Vec<Vec<Held>> = (0..4).map(of_host).collect();
        choose(&hosts, &Wanted { home: &[0, 1, 2, 3], ..wanted(None, RAID5, &[]) })
    };
    for lost in [&[][..], &[2], &[0, 1], &[1, 3]] {
        let chosen = taken(lost).unwrap_or_else(|why| panic!("{lost:?}: {why}"));
        assert_eq!((chosen.lost.len(), chosen.groups), (lost.len(), Some(pairs())), "{lost:?}");
    }
    assert!(taken(&[0, 3]).is_err() && taken(&[1, 2]).is_err(), "both of a pair");
}

/// A PE that moved to another node before the set was written begins on the node of its file.
#[test]
fn a_pe_begins_where_its_file_is() {
    let manifest = manifest(7, &protection(BackupMode::Raid5, 1, 3));
    let hosts =
        [vec![held(&manifest, Some(5), &[0, 2])], vec![held(&manifest, Some(5), &[1])], Vec::new()];
    let chosen = newest(&hosts).expect("all is there");
    assert_eq!((chosen.node_of, chosen.lost), (vec![0, 1, 0], Vec::new()));
    assert_eq!(chosen.folders, [vec!["7-[0, 2]".to_owned()], vec!["7-[1]".to_owned()], vec![]]);
}

/// Tests patterns of tiles of three PEs, each with two chunks of two tiles and one parity chunk of
/// two: the set is chosen exactly if no stripe has two damaged chunks.
#[test]
fn a_set_is_taken_just_where_parity_repairs_each_damaged_tile() {
    let of = protection(BackupMode::Raid5, 1, 3);
    let (old, new) = (manifest(7, &of), manifest(8, &of));
    let host = |pe: usize| vec![held(&old, Some(5), &[pe]), held(&new, Some(6), &[pe])];
    let hosts: Vec<Vec<Held>> = (0..3).map(host).collect();
    let (layout, members) = (&of.shapes[0].layout, &of.shapes[0].members);
    for pattern in (0u32..1 << 18).step_by(7) {
        let tiles = |pe: usize, content| -> Vec<u64> {
            let (from, all) = if content == Content::Data { (0, 4) } else { (4, 2) };
            (0..all).filter(|tile| pattern >> (6 * pe + from + *tile as usize) & 1 == 1).collect()
        };
        let damage = |pe: usize, content| {
            let (tiles, all) = (tiles(pe, content), if content == Content::Data { 4 } else { 2 });
            let (folder, why) = (format!("8-[{pe}]"), format!("a tile of PE {pe}"));
            let is_damaged = !tiles.is_empty();
            let (tiles, pe) = (Some(tiles), Pe::of(pe));
            is_damaged.then(|| (pe.at(), Damage { folder, content, pe, tiles, all, why }))
        };
        let both = |pe| [damage(pe, Content::Data), damage(pe, Content::Parity)];
        let damages: Vec<(usize, Damage)> = (0..3).flat_map(both).flatten().collect();
        let bears = layout.stripes().iter().all(|stripe| {
            let data = stripe.data.iter().filter(|data| {
                let pe = members[data.member].at();
                tiles(pe, Content::Data).iter().any(|tile| tile / 2 == data.chunk as u64)
            });
            let parity = stripe
                .parity
                .iter()
                .filter(|it| !tiles(members[it.member].at(), Content::Parity).is_empty());
            data.count() + parity.count() <= 1
        });
        let chosen =
            choose(&hosts, &wanted(None, RAID5, &damages)).expect("the older one is whole");
        assert_eq!(chosen.set, if bears { 6 } else { 5 }, "{damages:?}");
        if !bears {
            let [passed] = &chosen.passed[..] else { panic!("{:?}", chosen.passed) };
            assert!(passed.starts_with("set 6 is skipped: unrecoverable: "), "{passed}");
            assert!(passed.contains("(a tile of PE "), "{passed}");
        }
    }
}

/// If no parity fits, every file must be intact; an unreadable file counts as lost.
#[test]
fn a_damaged_file_counts_where_no_parity_fits_and_a_broken_one_as_lost() {
    let manifest = manifest(7, &protection(BackupMode::Raid5, 1, 3));
    let hosts: Vec<Vec<Held>> = (0..3).map(|pe| vec![held(&manifest, Some(5), &[pe])]).collect();
    let damage = |pe: usize, tiles: Option<Vec<u64>>, content| {
        let (folder, why) = (format!("7-[{pe}]"), format!("pe-{pe}: damaged"));
        (pe, Damage { folder, content, pe: Pe::of(pe), tiles, all: 4, why })
    };
    let chosen = |damages: &[_], scheme| choose(&hosts, &wanted(None, scheme, damages));
    let one = [damage(1, Some(vec![3]), Content::Data)];
    let why = chosen(&one, RS).unwrap_err();
    assert_eq!(why, "there is no complete checkpoint; set 5 is skipped: pe-1: damaged");
    assert!(chosen(&[damage(1, Some(vec![3]), Content::Parity)], RS).is_ok(), "it is not read");
    let all = [damage(1, None, Content::Data)];
    assert!(chosen(&all, RAID5).is_ok());
    let two = [damage(1, None, Content::Data), damage(2, None, Content::Data)];
    assert!(chosen(&two, RAID5).is_err());
}
