//! The targets of pointers, checked against running programs.
//!
//! Statements over pointers are drawn at random, and an interpreter executes them in random order,
//! together with outside code that reads and writes whatever it can reach. Every target observed
//! must be in the solution.

use raidshmem_advise::points::{Constraints, OUTSIDE, Solution};

const PROGRAMS: u64 = 1_500;
const STEPS: usize = 200;
const NODES: usize = 6;
const OBJECTS: usize = 6;

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % end as u64) as usize
    }
}

fn drawn(random: &mut Random) -> Constraints {
    let mut all = Constraints { nodes: NODES, objects: OBJECTS, ..Constraints::default() };
    for _ in 0..3 + random.below(9) {
        let (a, b) = (random.below(NODES), random.below(NODES));
        match random.below(12) {
            0..4 => all.addresses.push((a, 1 + random.below(OBJECTS - 1))),
            4 => all.addresses.push((a, OUTSIDE)),
            5 | 6 => all.copies.push((a, b)),
            7 | 8 => all.loads.push((a, b)),
            9 | 10 => all.stores.push((a, b)),
            _ => all.escapes.push(a),
        }
    }
    all
}

/// The memory of a running program: the targets of values and of objects' contents, and the objects
/// that outside code knows.
#[derive(Default)]
struct Memory {
    values: [Option<usize>; NODES],
    contents: [Option<usize>; OBJECTS],
    known: Vec<usize>,
}

impl Memory {
    fn any_known(&self, random: &mut Random) -> Option<usize> {
        (!self.known.is_empty()).then(|| self.known[random.below(self.known.len())])
    }

    /// Executes one statement, chosen at random, or an action of outside code.
    fn step(&mut self, all: &Constraints, random: &mut Random) {
        let pick = |count: usize, random: &mut Random| (count > 0).then(|| random.below(count));
        match random.below(6) {
            0 => {
                if let Some(at) = pick(all.addresses.len(), random) {
                    let (node, object) = all.addresses[at];
                    let outside = self.any_known(random);
                    self.values[node] = if object == OUTSIDE { outside } else { Some(object) };
                }
            }
            1 => {
                if let Some(at) = pick(all.copies.len(), random) {
                    self.values[all.copies[at].1] = self.values[all.copies[at].0];
                }
            }
            2 => {
                if let Some(at) = pick(all.loads.len(), random)
                    && let Some(object) = self.values[all.loads[at].0]
                {
                    self.values[all.loads[at].1] = self.contents[object];
                }
            }
            3 => {
                if let Some(at) = pick(all.stores.len(), random)
                    && let Some(object) = self.values[all.stores[at].1]
                {
                    self.contents[object] = self.values[all.stores[at].0];
                }
            }
            4 => {
                if let Some(at) = pick(all.escapes.len(), random) {
                    self.known.extend(self.values[all.escapes[at]]);
                }
            }
            _ => {
                if let Some(object) = self.any_known(random) {
                    match random.below(2) {
                        0 => self.known.extend(self.contents[object]),
                        _ => self.contents[object] = self.any_known(random),
                    }
                }
            }
        }
    }

    fn within(&self, solution: &Solution, seed: u64) {
        let escaped = solution.escaped();
        let allowed = |set: &std::collections::BTreeSet<usize>, object: &usize| {
            set.contains(object) || (set.contains(&OUTSIDE) && escaped.contains(object))
        };
        for (node, object) in self.values.iter().enumerate() {
            let fits = object.iter().all(|object| allowed(solution.of(node), object));
            assert!(fits, "seed {seed}: value {node} points to {object:?}");
        }
        for (holder, object) in self.contents.iter().enumerate() {
            let fits = object.iter().all(|object| allowed(solution.contents(holder), object));
            assert!(fits, "seed {seed}: object {holder} points to {object:?}");
        }
        for object in &self.known {
            assert!(escaped.contains(object), "seed {seed}: {object} is known outside");
        }
    }
}

#[test]
fn observed_pointers_are_in_the_solution() {
    let mut seen = 0;
    for seed in 0..PROGRAMS {
        let mut random = Random(seed);
        let all = drawn(&mut random);
        let solution = all.solve();
        let mut memory = Memory::default();
        for _ in 0..STEPS {
            memory.step(&all, &mut random);
            memory.within(&solution, seed);
        }
        seen += memory.contents.iter().flatten().count();
    }
    assert!(seen > PROGRAMS as usize / 4, "stores happened: {seen}");
}

#[test]
fn sets_are_no_larger_than_they_must_be() {
    // p = &a; q = &b; *p = q; r = *p
    let all = Constraints {
        nodes: 3,
        objects: 3,
        addresses: vec![(0, 1), (1, 2)],
        stores: vec![(1, 0)],
        loads: vec![(0, 2)],
        ..Constraints::default()
    };
    let solution = all.solve();
    assert_eq!(solution.of(2).iter().copied().collect::<Vec<_>>(), [2]);
    assert!(solution.contents(2).is_empty());
    assert_eq!(solution.escaped().iter().copied().collect::<Vec<_>>(), [OUTSIDE]);
}
