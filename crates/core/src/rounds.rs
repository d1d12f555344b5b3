//! How PEs meet by dissemination: whom each signals and waits for, as a function of index and size.
//!
//! ```text
//! 0 1 2 3 4     round 0: i signals i + 1
//! 0 1 2 3 4     round 1: i signals i + 2
//! 0 1 2 3 4     round 2: i signals i + 4  (mod size)
//! ```
//!
//! After `ceil(log2 size)` rounds each has heard, directly or not, of all.
/// One round of a meeting, as one of the PEs sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whom to signal.
    pub to: usize,
    /// Whose signal to wait for.
    pub from: usize,
}

/// The rounds of PE `index` of `size` (`index < size`); none for one that is alone.
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

    /// What each PE has heard of: a bit for each.
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
    fn after_the_last_round_everybody_has_heard_of_everybody() {
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

    /// PEs at any speed: whoever can go on does, in an order that a fixed generator picks. Nobody
    /// leaves before the last has come, and all leave in the end.
    #[test]
    fn nobody_leaves_a_meeting_before_all_have_come() {
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
