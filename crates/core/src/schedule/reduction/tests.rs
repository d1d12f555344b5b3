//! All algorithms give the bits of one tree, for every size up to 64, over teams, in any event
//! order.

use std::collections::HashMap;

use super::super::bruck;
use super::*;
use crate::rounds::{Round, rounds as meetings};

const LARGEST: usize = 64;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        self.0 >> 24
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// Returns numbers of very different magnitude, so that every order of additions has distinct
    /// bits.
    fn number(&mut self) -> f64 {
        let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
        sign * (1.0 + self.below(1 << 30) as f64 / 7.0) * 10f64.powi(self.below(12) as i32)
    }
}

/// Reduces along the tree as drawn.
fn tree(operands: &[f64]) -> f64 {
    fn balanced(leaves: &[f64]) -> f64 {
        match leaves {
            [one] => *one,
            _ => {
                let (low, high) = leaves.split_at(leaves.len() / 2);
                balanced(low) + balanced(high)
            }
        }
    }
    let size = operands.len();
    let pairs = size - (size + 1).next_power_of_two() / 2;
    let mut leaves: Vec<f64> =
        operands[..2 * pairs].chunks(2).map(|pair| pair[0] + pair[1]).collect();
    leaves.extend(&operands[2 * pairs..]);
    balanced(&leaves)
}

fn bits(of: &[f64]) -> Vec<u64> {
    of.iter().map(|number| number.to_bits()).collect()
}

fn on_a_stack(operands: &[f64]) -> f64 {
    let (mut stack, mut deepest) = (Vec::new(), 0);
    for (index, operand) in operands.iter().enumerate() {
        let mut upper = *operand;
        for _ in 0..merges(index, operands.len()) {
            upper += stack.pop().expect("a lower operand");
        }
        stack.push(upper);
        deepest = deepest.max(stack.len());
    }
    assert!(stack.len() == 1 && deepest <= depth(operands.len()));
    stack[0]
}

#[test]
fn a_stack_combines_in_the_tree_which_is_not_the_order_of_the_pes() {
    let mut random = Random(1);
    let mut other_bits = 0;
    for size in 1..=1000 {
        let operands: Vec<f64> = (0..size).map(|_| random.number()).collect();
        assert_eq!(on_a_stack(&operands).to_bits(), tree(&operands).to_bits(), "{size}");
        let in_turn = operands.iter().copied().reduce(|a, b| a + b).unwrap();
        other_bits += usize::from(in_turn.to_bits() != tree(&operands).to_bits());
    }
    assert!(other_bits > 500, "the numbers tell orders apart");
}

#[test]
fn nodes_that_fit_the_tree_reduce_first_with_equal_bits() {
    let mut random = Random(2);
    for size in 1..=LARGEST {
        for each in (1..=size).filter(|each| size.is_multiple_of(*each)) {
            let members: Vec<Vec<usize>> =
                (0..size / each).map(|node| (node * each..(node + 1) * each).collect()).collect();
            assert_eq!(fits(&members), each.is_power_of_two(), "{size} by {each}");
            let operands: Vec<f64> = (0..size).map(|_| random.number()).collect();
            let of_nodes: Vec<f64> = operands.chunks(each).map(tree).collect();
            if fits(&members) {
                assert_eq!(tree(&of_nodes).to_bits(), tree(&operands).to_bits());
            }
        }
    }
    assert!(!fits(&[vec![0, 2], vec![1, 3]]) && !fits(&[vec![0, 1], vec![2]]));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Doubling,
    Halving,
    Bruck,
}

/// A collective of PEs of a world, using the words and slots of their team.
#[derive(Clone, Debug)]
struct Call {
    way: Way,
    team: usize,
    pes: Vec<usize>,
    /// Number of elements of a vector, or of a block.
    count: usize,
    in_place: bool,
}

impl Call {
    fn input(&self, number: usize, index: usize) -> Vec<f64> {
        let mut random = Random((number * 1000 + index) as u64);
        let blocks = if self.way == Way::Bruck { self.pes.len() } else { 1 };
        (0..self.count * blocks).map(|_| random.number()).collect()
    }

    fn output(&self, number: usize, index: usize) -> Vec<f64> {
        let inputs: Vec<_> = (0..self.pes.len()).map(|pe| self.input(number, pe)).collect();
        if self.way == Way::Bruck {
            let block = index * self.count..(index + 1) * self.count;
            return inputs.iter().flat_map(|input| input[block.clone()].to_vec()).collect();
        }
        let element = |at: usize| inputs.iter().map(|input| input[at]).collect::<Vec<_>>();
        (0..self.count).map(|at| tree(&element(at))).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Do(ReductionStep),
    Send { to: usize, round: usize },
    Take { round: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    Slot(usize),
    Offer,
    Result,
}

type Key = (usize, Word, usize); // team, word, round

/// A message: bytes, then the word.
struct Message {
    to: usize,
    slot: Option<Vec<f64>>,
    result: Option<(usize, Vec<f64>)>,
    key: Key,
}

#[derive(Default)]
struct Pe {
    /// Index of the current call, and its remaining steps.
    call: usize,
    steps: Option<std::collections::VecDeque<Step>>,
    /// Source by team, reused by every call over the team.
    source: HashMap<usize, Vec<f64>>,
    dest: HashMap<usize, Vec<f64>>,
    turns: HashMap<usize, usize>,
    words: HashMap<Key, usize>,
    slots: HashMap<Key, Vec<f64>>,
    partial: Vec<f64>,
}

struct World<'a> {
    calls: &'a [Call],
    /// The elements of each PE.
    mine: Vec<Vec<usize>>,
    pes: Vec<Pe>,
    flying: Vec<Message>,
}

impl World<'_> {
    fn signal(&mut self, to: usize, key: Key) {
        self.flying.push(Message { to, slot: None, result: None, key });
    }

    fn wait_for(&mut self, pe: usize, key: Key) -> bool {
        let word = self.pes[pe].words.entry(key).or_default();
        let told = *word > 0;
        *word -= usize::from(told);
        told
    }

    fn deliver(&mut self, message: Message) {
        let (team, ..) = message.key;
        let pe = &mut self.pes[message.to];
        if let Some(data) = message.slot {
            let before = pe.slots.insert(message.key, data);
            assert!(before.is_none(), "slot {:?} was not read yet", message.key);
        }
        if let Some((first, data)) = message.result {
            pe.dest.get_mut(&team).unwrap()[first..first + data.len()].copy_from_slice(&data);
        }
        *pe.words.entry(message.key).or_default() += 1;
    }

    /// Makes one step of a PE; false if it must wait, or is finished.
    fn step(&mut self, me: usize) -> bool {
        let Some(&number) = self.mine[me].get(self.pes[me].call) else { return false };
        let calls = self.calls;
        let call = &calls[number];
        let index = call.pes.iter().position(|pe| *pe == me).unwrap();
        let Some(steps) = &mut self.pes[me].steps else {
            self.enter(me, call, number, index);
            return true;
        };
        let Some(step) = steps.front().cloned() else {
            let pe = &mut self.pes[me];
            let wanted = call.output(number, index);
            let kept = if call.in_place { &pe.source } else { &pe.dest };
            let kept = if call.way == Way::Halving { &pe.dest } else { kept };
            assert_eq!(bits(&kept[&call.team]), bits(&wanted), "PE {index} in {call:?}");
            (pe.steps, pe.call) = (None, pe.call + 1);
            return true;
        };
        let done = self.act(me, call, index, step);
        if done {
            self.pes[me].steps.as_mut().unwrap().pop_front();
            self.leave_if_done(me, call, index);
        }
        done
    }

    fn enter(&mut self, me: usize, call: &Call, number: usize, index: usize) {
        let size = call.pes.len();
        let pe = &mut self.pes[me];
        let input = call.input(number, index);
        pe.partial.clone_from(&input);
        pe.dest.insert(
            call.team,
            if call.in_place { input.clone() } else { vec![f64::NAN; input.len()] },
        );
        pe.source.insert(call.team, input);
        if call.way != Way::Halving {
            *pe.turns.entry(call.team).or_default() += 1;
        }
        pe.steps = Some(match call.way {
            Way::Doubling => doubling(index, size).map(Step::Do).collect(),
            Way::Halving if size == 1 => {
                pe.dest.insert(call.team, pe.partial.clone());
                [].into()
            }
            Way::Halving => halving(index, size, call.count).map(Step::Do).collect(),
            Way::Bruck => {
                let at = |distance| bruck::ahead(index, distance, size) * call.count;
                let row = (0..size).flat_map(|d| pe.partial[at(d)..at(d) + call.count].to_vec());
                pe.partial = row.collect();
                let both = |(round, peers): (usize, Round)| {
                    [Step::Send { to: peers.to, round }, Step::Take { round }]
                };
                meetings(index, size).enumerate().flat_map(both).collect()
            }
        });
        self.leave_if_done(me, call, index);
    }

    /// Copies the result from private memory to the destination.
    fn leave_if_done(&mut self, me: usize, call: &Call, index: usize) {
        let (size, pe) = (call.pes.len(), &mut self.pes[me]);
        if call.way == Way::Halving || !pe.steps.as_ref().unwrap().is_empty() {
            return;
        }
        let mut end = pe.partial.clone();
        if call.way == Way::Bruck {
            for distance in 0..size {
                let at = bruck::behind(index, distance, size) * call.count;
                let block = &pe.partial[distance * call.count..][..call.count];
                end[at..at + call.count].copy_from_slice(block);
            }
        }
        let kept = if call.in_place { &mut pe.source } else { &mut pe.dest };
        kept.insert(call.team, end);
    }

    fn act(&mut self, me: usize, call: &Call, index: usize, step: Step) -> bool {
        let (team, count, size) = (call.team, call.count, call.pes.len());
        let turn = self.pes[me].turns.get(&team).copied().unwrap_or_default() % 2;
        let slot = |round| (team, Word::Slot(turn), round);
        let send = |world: &mut Self, to: usize, round, data| {
            let (to, key) = (call.pes[to], slot(round));
            world.flying.push(Message { to, slot: Some(data), result: None, key });
        };
        match step {
            Step::Send { to, round } => {
                let row = &self.pes[me].partial;
                let block = |distance: usize| row[distance * count..][..count].to_vec();
                let data: Vec<f64> = bruck::sent(round, size).flat_map(block).collect();
                assert!(data.len() <= bruck::most(size) * count);
                send(self, to, round, data);
            }
            Step::Take { round } => {
                if !self.wait_for(me, slot(round)) {
                    return false;
                }
                let pe = &mut self.pes[me];
                let data = pe.slots.remove(&slot(round)).unwrap();
                for (nth, distance) in bruck::sent(round, size).enumerate() {
                    pe.partial[distance * count..][..count]
                        .copy_from_slice(&data[nth * count..][..count]);
                }
            }
            Step::Do(op) => return self.reduce(me, call, (index, slot(0)), op),
        }
        true
    }

    fn reduce(
        &mut self,
        me: usize,
        call: &Call,
        (_, slot): (usize, Key),
        op: ReductionStep,
    ) -> bool {
        let team = call.team;
        let combine = |side, own: f64, other: f64| match side {
            Side::Lower => other + own,
            Side::Upper => own + other,
        };
        match op {
            ReductionStep::Leave { to, round } => {
                let data = Some(self.pes[me].partial.clone());
                let key = (slot.0, slot.1, round);
                self.flying.push(Message { to: call.pes[to], slot: data, result: None, key });
            }
            ReductionStep::Combine { round, .. } | ReductionStep::Adopt { round } => {
                let key = (slot.0, slot.1, round);
                if !self.wait_for(me, key) {
                    return false;
                }
                let pe = &mut self.pes[me];
                let data = pe.slots.remove(&key).unwrap();
                for (own, other) in pe.partial.iter_mut().zip(data) {
                    *own = match op {
                        ReductionStep::Combine { side, .. } => combine(side, *own, other),
                        _ => other,
                    };
                }
            }
            ReductionStep::Offer { to, round } => {
                self.signal(call.pes[to], (team, Word::Offer, round))
            }
            ReductionStep::Read { from, round, range, side, theirs, mine } => {
                if !self.wait_for(me, (team, Word::Offer, round)) {
                    return false;
                }
                // For a call in place, source and destination are identical.
                let buffer = |pe: &Pe, at| match at {
                    PartialPlace::Source if !call.in_place => pe.source[&team].clone(),
                    _ => pe.dest[&team].clone(),
                };
                let theirs = buffer(&self.pes[call.pes[from]], theirs);
                let own = buffer(&self.pes[me], mine);
                let dest = self.pes[me].dest.get_mut(&team).unwrap();
                for at in range {
                    dest[at] = combine(side, own[at], theirs[at]);
                }
            }
            ReductionStep::Give { to, round, range } => {
                let data = self.pes[me].dest[&team][range.clone()].to_vec();
                let (to, key) = (call.pes[to], (team, Word::Result, round));
                let result = Some((range.start, data));
                self.flying.push(Message { to, slot: None, result, key });
            }
            ReductionStep::Get { round } => return self.wait_for(me, (team, Word::Result, round)),
        }
        true
    }
}

/// Runs all calls, messages and PEs in a random order, each PE at its own speed.
fn run(size: usize, calls: &[Call], random: &mut Random) {
    let pes = (0..size).map(|_| Pe::default()).collect();
    let of = |pe| (0..calls.len()).filter(|call| calls[*call].pes.contains(&pe)).collect();
    let mine: Vec<Vec<usize>> = (0..size).map(of).collect();
    let mut world = World { calls, mine, pes, flying: Vec::new() };
    let mut idle = 0;
    while (0..size).any(|pe| world.pes[pe].call < world.mine[pe].len()) {
        let moved = if !world.flying.is_empty() && random.below(3) == 0 {
            let message = world.flying.swap_remove(random.below(world.flying.len()));
            world.deliver(message);
            true
        } else {
            // Occasionally one PE runs as far as it can.
            let (pe, mut moved) = (random.below(size), false);
            for _ in 0..[1, 1, 50][random.below(3)] {
                moved |= world.step(pe);
            }
            moved
        };
        idle = if moved { 0 } else { idle + 1 };
        assert!(idle < 100_000, "{size}: a PE hangs in {calls:?}");
    }
    assert!(world.flying.is_empty(), "{size}: no PE waits for what is in flight");
    let left = world.pes.iter().any(|pe| pe.words.values().any(|word| *word > 0));
    assert!(!left, "{size}: a word is left");
}

const WAYS: [Way; 3] = [Way::Doubling, Way::Halving, Way::Bruck];

#[test]
fn calls_after_each_other_over_all_pes_have_the_bits_of_the_tree() {
    let mut random = Random(3);
    for size in 1..=LARGEST {
        let pes: Vec<usize> = (0..size).collect();
        for count in [0, 1, 5, size, 3 * size + 1] {
            let calls: Vec<Call> = (0..6)
                .map(|_| {
                    let way = WAYS[random.below(3)];
                    let count = if way == Way::Bruck { count.min(2) } else { count };
                    let in_place = random.below(2) == 0;
                    Call { way, team: 0, pes: pes.clone(), count, in_place }
                })
                .collect();
            run(size, &calls, &mut random);
        }
    }
}

/// Returns teams of `size` PEs: all, all reversed, strided, rows and columns; each with the number
/// of its words, which disjoint teams share.
fn teams(size: usize) -> Vec<(usize, Vec<usize>)> {
    let mut teams = vec![(0, (0..size).collect()), (1, (0..size).rev().collect())];
    let stride = 1 + size / 5;
    teams.push((2, (size / 3..size).step_by(stride).collect()));
    let width = 1 + (size as f64).sqrt() as usize;
    teams.extend((0..size).step_by(width).map(|row| (3, (row..size.min(row + width)).collect())));
    teams.extend((0..width.min(size)).map(|x| (4, (x..size).step_by(width).collect())));
    // Active sets: strides that are powers of two.
    teams.extend((0..4.min(size)).map(|start| (5, (start..size).step_by(4).collect())));
    teams
}

#[test]
fn overlapping_teams_and_teams_in_shared_words_do_not_interfere() {
    let mut random = Random(4);
    for size in 1..=LARGEST {
        let teams = teams(size);
        let mut calls = Vec::new();
        for _ in 0..3 * teams.len() {
            let (team, pes) = teams[random.below(teams.len())].clone();
            let way = if team == 5 { Way::Halving } else { WAYS[random.below(3)] };
            let count = if way == Way::Bruck { 1 } else { random.below(9) };
            calls.push(Call { way, team, pes, count, in_place: random.below(2) == 0 });
        }
        run(size, &calls, &mut random);
    }
}

#[test]
fn no_pe_sends_more_than_a_message_a_round_and_a_pair() {
    for size in 1..=LARGEST {
        for index in 0..size {
            let sends = |op: &ReductionStep| {
                matches!(
                    op,
                    ReductionStep::Leave { .. }
                        | ReductionStep::Offer { .. }
                        | ReductionStep::Give { .. }
                )
            };
            let most = size.ilog2() as usize + 1;
            assert!(doubling(index, size).filter(sends).count() <= most);
            assert!(halving(index, size, 1000).filter(sends).count() <= 2 * most);
            let read = |op: ReductionStep| match op {
                ReductionStep::Read { range, .. } | ReductionStep::Give { range, .. } => {
                    range.len()
                }
                _ => 0,
            };
            let pair = size - (1 << size.ilog2());
            let bytes: usize = halving(index, size, 6400).map(read).sum();
            assert!(bytes <= 2 * 6400 + if pair > 0 { 2 * 6400 } else { 0 }, "{index} of {size}");
        }
    }
}
