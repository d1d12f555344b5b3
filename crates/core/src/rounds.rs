//! The pattern of a barrier: the PEs that each PE signals and waits for, from index and size.
//!
//! PEs that signal each other over a network use dissemination:
//!
//! ```text
//! 0 1 2 3 4     round 0: i signals i + 1
//! 0 1 2 3 4     round 1: i signals i + 2
//! 0 1 2 3 4     round 2: i signals i + 4  (mod size)
//! ```
//!
//! After `ceil(log2 size)` rounds each PE has a signal, direct or indirect, from every other.
//!
//! PEs that share memory use counters, with up to [`FANIN`] PEs at each. The lowest PE at a counter
//! leads, and continues at the next level:
//!
//! ```text
//! 0 1 .. 15 | 16 17 .. 31 | ..     level 0
//! 0           16            ..     level 1: at most 16 of these, and so on
//! ```
//!
//! So no PE counts or wakes more than `FANIN` PEs per level, and there are at most [`LEVELS`].

use crate::view::PES_MAX;

/// Maximum number of PEs at one counter.
pub const FANIN: usize = 16;
/// Maximum number of levels of counters.
pub const LEVELS: usize = 4;

const _: () = assert!(FANIN.pow(LEVELS as u32) >= PES_MAX);

/// A counter at which a PE meets other PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Level of the counter.
    pub level: usize,
    /// Index of the leader, whose memory has the counter.
    pub leader: usize,
    /// Distance between the indices of two successive members.
    pub stride: usize,
    /// Number of members.
    pub members: usize,
    /// True if there is no level above.
    pub is_top: bool,
}

impl Counter {
    /// Returns the indices of the members.
    pub fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        let Counter { leader, stride, members, .. } = *self;
        (0..members).map(move |member| leader + member * stride)
    }
}

/// Returns the counters of PE `index` of `size`, from the lowest level on (`index < size`).
pub fn counters(index: usize, size: usize) -> impl Iterator<Item = Counter> {
    let at = move |level: usize| {
        let stride = FANIN.pow(level as u32);
        let (leader, all) = (index - index % (stride * FANIN), size.div_ceil(stride));
        let members = (all - leader / stride).min(FANIN);
        Counter { level, leader, stride, members, is_top: all <= FANIN }
    };
    let above = move |counter: &Counter| {
        (!counter.is_top && counter.leader == index).then(|| at(counter.level + 1))
    };
    std::iter::successors(Some(at(0)), above)
}

/// One round of a barrier, from the perspective of one PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// PE that receives this PE's signal.
    pub to: usize,
    /// PE whose signal this PE awaits.
    pub from: usize,
}

/// Returns the rounds of PE `index` of `size` (`index < size`); empty for a single PE.
pub fn rounds(index: usize, size: usize) -> impl Iterator<Item = Round> {
    let distances = std::iter::successors(Some(1usize), |distance| distance.checked_mul(2));
    distances.take_while(move |distance| *distance < size).map(move |distance| Round {
        to: (index + distance) % size,
        from: (index + size - distance) % size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 64;

    /// Returns the PEs that each PE has a signal from, as bits.
    fn heard_after_all_rounds(size: usize) -> Vec<u64> {
        let schedule: Vec<Vec<Round>> = (0..size).map(|pe| rounds(pe, size).collect()).collect();
        let mut heard: Vec<u64> = (0..size).map(|pe| 1 << pe).collect();
        for round in 0..schedule[0].len() {
            let before = heard.clone();
            for pe in 0..size {
                heard[pe] |= before[schedule[pe][round].from];
            }
        }
        heard
    }

    #[test]
    fn after_the_last_round_every_pe_has_heard_from_all() {
        for size in 1..=LARGEST {
            let all = u64::MAX >> (64 - size);
            assert!(heard_after_all_rounds(size).into_iter().all(|heard| heard == all), "{size}");
        }
    }

    #[test]
    fn every_signal_is_waited_for_in_its_round_and_there_are_no_more_than_needed() {
        for size in 1..=LARGEST {
            let needed = size.next_power_of_two().trailing_zeros() as usize;
            for pe in 0..size {
                assert_eq!(rounds(pe, size).count(), needed);
                for (number, round) in rounds(pe, size).enumerate() {
                    let theirs = rounds(round.to, size).nth(number);
                    assert_eq!(theirs.map(|theirs| theirs.from), Some(pe), "{pe} of {size}");
                    assert_ne!(round.to, pe);
                }
            }
        }
    }

    #[test]
    fn counters_gather_all_and_none_of_them_many() {
        for size in (1..=600).chain([4095, 4096, 4097, PES_MAX]) {
            let mut below = 0;
            for index in 0..size {
                let own: Vec<Counter> = counters(index, size).collect();
                let last = own.last().unwrap();
                assert!(own.len() <= LEVELS && own.iter().all(|at| at.members <= FANIN));
                assert!(own.iter().enumerate().all(|(level, at)| at.level == level));
                assert!(own.iter().all(|at| at.indices().any(|member| member == index)));
                assert!(last.is_top || last.leader != index);
                for at in own.iter().filter(|at| at.leader == index) {
                    below += at.members - 1;
                    let same = |member: usize| counters(member, size).any(|other| other == *at);
                    assert!(at.indices().all(same), "{index} of {size}: {at:?}");
                }
            }
            assert_eq!(below, size - 1, "each but the root is counted once by another");
        }
    }

    /// Runs PEs at any speed, in an order of a fixed random generator. No PE may leave before the
    /// last has arrived, and all must leave in the end.
    #[test]
    fn no_pe_leaves_a_meeting_before_all_have_arrived() {
        for size in 1..=LARGEST {
            let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ size as u64;
            let mut inbox = vec![vec![0u32; 8]; size];
            let mut round = vec![None; size];
            let mut left = 0;
            while left < size {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pe = (random >> 33) as usize % size;
                let schedule: Vec<Round> = rounds(pe, size).collect();
                let at = match round[pe] {
                    None => 0,
                    Some(at) if at < schedule.len() && inbox[pe][at] > 0 => {
                        inbox[pe][at] -= 1;
                        at + 1
                    }
                    Some(_) => continue,
                };
                if at < schedule.len() {
                    inbox[schedule[at].to][at] += 1;
                } else {
                    left += 1;
                    let waiting = round.iter().enumerate().any(|(i, r)| i != pe && r.is_none());
                    assert!(!waiting, "{pe} of {size} left too early");
                }
                round[pe] = Some(at);
            }
            assert!(inbox.iter().flatten().all(|signals| *signals == 0), "{size}");
        }
    }
}
