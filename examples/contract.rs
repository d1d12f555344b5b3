//! The contraction at the core of coupled cluster, iterated, in shrink mode
//! (`SHMEM_FT_SUBSTITUTE=shrink`, `SHMEM_FT_ROLLBACK=none`): some PEs are lost and not replaced.
//!
//! ```text
//! contract PAIRS ITERATIONS [PE@TASK ..]      PE kills itself in its task number TASK
//!
//! new[ij][ab] = (k[ij][ab] + sum over cd of v[ab][cd] * old[ij][cd]) / d[ij][ab]
//! ```
//!
//! A task computes the amplitudes of one pair `ij` for one iteration. Amplitudes are in a global
//! array: those of a pair on its *home*, and again on a *shadow*, a member of the team on another
//! node, both updated by `put2`. A counter on the first member hands out all tasks but the first of
//! each member. After a loss the survivors form a new team, every pair that had a copy on a lost PE
//! gets another one from the remaining copy, and the tasks that are not marked as done are handed
//! out again: only the task in progress on the lost PE is repeated.
//!
//! One PE computes the sums of a pair in a fixed order, so the final digest does not depend on the
//! assignment of tasks, or on losses.

use raidshmem::{Error, Peers, Shmem, SymRef, SymSlice, Team, ft};

/// Virtual orbitals: a pair has an amplitude for each pair of them.
const VIRTUAL: usize = 10;
/// Amplitudes of a pair.
const AMPLITUDES: usize = VIRTUAL * VIRTUAL;

/// Returns a number between -1 and 1 that depends on three others.
fn number(a: usize, b: usize, c: usize) -> f64 {
    let mut x = (a as u64) << 40 ^ (b as u64) << 20 ^ c as u64 ^ 0x9e37_79b9_7f4a_7c15;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ x >> 31) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Returns the amplitudes of a pair after an iteration.
fn contracted(pair: usize, old: &[f64]) -> Vec<f64> {
    let one = |ab: usize| {
        let terms = old.iter().enumerate().map(|(cd, t)| number(ab, cd, 1) / VIRTUAL as f64 * t);
        (number(pair, ab, 2) + terms.sum::<f64>()) / (2.0 + (pair % 5 + ab % 7) as f64)
    };
    (0..AMPLITUDES).map(one).collect()
}

/// The global array, and the counter of tasks.
#[derive(Clone, Copy)]
struct Data {
    /// The amplitudes of all pairs after even and odd iterations.
    amplitudes: [SymSlice<f64>; 2],
    /// The last complete iteration of each pair.
    done: SymSlice<u64>,
    next: SymRef<u64>,
}

impl Data {
    fn of(&self, pair: usize, iteration: u64) -> SymSlice<f64> {
        let at = pair * AMPLITUDES;
        self.amplitudes[iteration as usize % 2].range(at..at + AMPLITUDES)
    }
}

/// The shadow of each member of a team.
struct Shadows(Vec<usize>);

impl Shadows {
    fn of(shmem: &Shmem, team: Team) -> Shadows {
        let shadow = |pe| ft::shadow(shmem, team, pe).expect("two members or more");
        Shadows((0..shmem.team_size(team)).map(shadow).collect())
    }

    /// Returns home and shadow of a pair.
    fn places(&self, pair: usize) -> [usize; 2] {
        let home = pair % self.0.len();
        [home, self.0[home]]
    }
}

/// The tasks of this PE.
struct Worker {
    /// The number of completed tasks.
    tasks: u64,
    /// The task in which it dies.
    dies_in: Option<u64>,
}

impl Worker {
    /// Does tasks of an iteration until there are no more, or a PE is lost.
    fn work(
        &mut self,
        peers: &Peers,
        (data, shadows): (Data, &Shadows),
        (pairs, iteration): (usize, u64),
    ) {
        let mut pair = peers.my_pe(); // the first one is its own
        loop {
            if peers.faulted() || pair >= pairs {
                return;
            }
            let [home, shadow] = shadows.places(pair);
            match peers.try_read(home, data.done.at(pair)) {
                Ok(done) if done < iteration => {}
                _ => {
                    pair = peers.fetch_add(0, data.next, 1) as usize; // done before a loss
                    continue;
                }
            }
            let mut old = vec![0.0; AMPLITUDES];
            let from = data.of(pair, iteration - 1);
            let got = peers.try_get(home, from, &mut old);
            if got.or_else(|_| peers.try_get(shadow, from, &mut old)).is_err() {
                return; // both are lost; `settle` reports it
            }
            let new = contracted(pair, &old);
            if self.dies_in == Some(self.tasks) {
                println!("PE {} dies after {} tasks", peers.my_pe(), self.tasks);
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
            self.tasks += 1;
            // `settle` handles the loss of a member.
            let _ = peers.put2([home, shadow], data.of(pair, iteration), &new);
            let _ = peers.put2([home, shadow], data.done.slice(pair), &[iteration]);
            pair = peers.fetch_add(0, data.next, 1) as usize;
        }
    }
}

/// Slices of one element.
trait OfOne<T> {
    fn slice(self, index: usize) -> SymSlice<T>;
}

impl<T: raidshmem::Symmetric> OfOne<T> for SymSlice<T> {
    fn slice(self, index: usize) -> SymSlice<T> {
        self.range(index..index + 1)
    }
}

/// Fetches all pairs that belong to this PE by the places in `new`, from their places in `old`.
/// `now` holds the numbers in `new` of the members of `old`, `None` for a lost PE.
fn settle(
    peers: &Peers,
    data: Data,
    (old, now, new): (&Shadows, &[Option<usize>], &Shadows),
    pairs: usize,
) -> Vec<Copied> {
    let me = peers.my_pe();
    let mut copied = Vec::new();
    for pair in (0..pairs).filter(|&pair| new.places(pair).contains(&me)) {
        let holders = old.places(pair).map(|place| now[place]);
        let newest = holders
            .iter()
            .flatten()
            .map(|&holder| (peers.read(holder, data.done.at(pair)), holder))
            .max()
            .unwrap_or_else(|| panic!("pair {pair}: both of its PEs are lost"));
        let (done, holder) = newest;
        let mut amplitudes = [vec![0.0; AMPLITUDES], vec![0.0; AMPLITUDES]];
        for (iteration, values) in (0..).zip(&mut amplitudes) {
            peers.get(holder, data.of(pair, iteration), values);
        }
        copied.push(Copied { pair, done, amplitudes });
    }
    copied
}

/// A pair that belongs to this PE from now on.
struct Copied {
    pair: usize,
    done: u64,
    amplitudes: [Vec<f64>; 2],
}

/// After a loss, forms a team of the survivors in which everything has its two places again.
fn go_on(
    shmem: &mut Shmem,
    (team, old): (Team, &Shadows),
    data: Data,
    pairs: usize,
) -> Result<(Team, Shadows), Error> {
    let mut living = team;
    loop {
        ft::query_fault(shmem);
        ft::restart_pes(shmem);
        let next = ft::shrink(shmem, living)?;
        if living != team {
            shmem.destroy(living)?;
        }
        living = next;
        let size = shmem.team_size(team);
        let now: Vec<_> = (0..size).map(|pe| shmem.translate_pe(team, pe, living)).collect();
        let new = Shadows::of(shmem, living);
        let places = (old, &now[..], &new);
        // All PEs read before any PE writes: the first exchange ends for all or for none.
        let Ok(copied) = shmem.exchange_in(living, |peers| settle(peers, data, places, pairs))
        else {
            continue;
        };
        for Copied { pair, done, amplitudes } in copied {
            shmem.local_mut(data.done)[pair] = done;
            for (iteration, values) in (0..).zip(&amplitudes) {
                shmem.local_mut(data.of(pair, iteration)).copy_from_slice(values);
            }
        }
        if team != shmem.team_world() {
            shmem.destroy(team)?;
        }
        return Ok((living, new));
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut shmem = Shmem::init();
    let (pairs, iterations): (usize, u64) = match words.as_slice() {
        [pairs, iterations, ..] => (pairs.parse().unwrap(), iterations.parse().unwrap()),
        _ => panic!("contract PAIRS ITERATIONS [PE@TASK ..]"),
    };
    let me = shmem.my_pe();
    let losses = words[2..].iter().map(|word| word.split_once('@').expect("PE@TASK"));
    let mut own = losses.filter(|(pe, _)| pe.parse() == Ok(me));
    let dies_in = own.next().map(|(_, task)| task.parse().unwrap());
    let data = Data {
        amplitudes: [shmem.alloc(pairs * AMPLITUDES)?, shmem.alloc(pairs * AMPLITUDES)?],
        done: shmem.alloc(pairs)?,
        next: shmem.alloc_one(0)?,
    };
    let (mut worker, mut team) = (Worker { tasks: 0, dies_in }, shmem.team_world());
    let mut shadows = Shadows::of(&shmem, team);
    let mut iteration = 1;
    while iteration <= iterations {
        shmem.write(data.next, shmem.team_size(team) as u64);
        let work = (pairs, iteration);
        match shmem.exchange_in(team, |peers| worker.work(peers, (data, &shadows), work)) {
            Ok(()) => iteration += 1,
            Err(_) => (team, shadows) = go_on(&mut shmem, (team, &shadows), data, pairs)?,
        }
    }
    // Every PE computes the expected result, and compares all of it.
    let mut wrong = 0;
    let digest = shmem.exchange_in(team, |peers| {
        let mut digest = 0u64;
        for pair in 0..pairs {
            let mut expected = vec![0.0; AMPLITUDES];
            (0..iterations).for_each(|_| expected = contracted(pair, &expected));
            for place in shadows.places(pair) {
                let mut found = vec![0.0; AMPLITUDES];
                peers.get(place, data.of(pair, iterations), &mut found);
                wrong += usize::from(found != expected);
            }
            let bits = expected.iter().map(|value| value.to_bits());
            digest = bits.fold(digest, |sum, bits| sum.rotate_left(5) ^ bits);
        }
        digest
    })?;
    println!("PE {me} did {} tasks", worker.tasks);
    if shmem.team_pe(team) == Some(0) {
        let left = shmem.team_size(team);
        println!("contract: digest {digest:016x}, {wrong} wrong, {left} PEs at the end");
    }
    Ok(())
}
