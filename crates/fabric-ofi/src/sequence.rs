//! Puts to a peer, numbered in the order in which they began: which of them are over.
//!
//! Puts end in any order. A quiet waits for those that began before it, however many follow.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// The puts to one incarnation of a peer.
#[derive(Debug, Default)]
pub struct Sequence {
    /// The number of the first put that is not over.
    first: u64,
    /// From that one on: true if it is over.
    over: VecDeque<bool>,
}

impl Sequence {
    /// Begins a put and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.over.push_back(false);
        self.begun() - 1
    }

    /// Returns the number of the next put.
    pub fn begun(&self) -> u64 {
        self.first + self.over.len() as u64
    }

    /// Ends a put.
    pub fn end(&mut self, number: u64) {
        if let Some(over) = number.checked_sub(self.first).map(|index| index as usize) {
            self.over[over] = true;
        }
        while self.over.front() == Some(&true) {
            self.over.pop_front();
            self.first += 1;
        }
    }

    /// Returns true if all puts below this number are over.
    pub fn is_over(&self, below: u64) -> bool {
        self.first >= below
    }
}

/// The wake-ups that a peer gets once puts have arrived. While one waits for its puts, later ones
/// become one: a peer that is woken looks at everything.
#[derive(Debug, Default)]
pub struct Wakes {
    /// The puts that the next wake-up waits for.
    now: Option<u64>,
    /// The same for the one after it.
    later: Option<u64>,
}

impl Wakes {
    /// Asks for a wake-up after all puts of `sequence` so far.
    pub fn ask(&mut self, sequence: &Sequence) {
        let below = Some(sequence.begun());
        match self.now {
            Some(_) => self.later = below,
            None => self.now = below,
        }
    }

    /// Returns true if a wake-up is due now, once for each.
    pub fn due(&mut self, sequence: &Sequence) -> bool {
        let due = self.now.is_some_and(|below| sequence.is_over(below));
        if due {
            self.now = self.later.take();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_waits_for_the_puts_before_it_in_whatever_order_they_end() {
        let mut puts = Sequence::default();
        let numbers: Vec<u64> = (0..4).map(|_| puts.begin()).collect();
        let quiet = puts.begun();
        assert!(puts.is_over(0) && !puts.is_over(quiet));
        let later = puts.begin();
        for number in [1, 3, 0] {
            puts.end(numbers[number]);
            assert!(!puts.is_over(quiet));
        }
        assert!(puts.is_over(2), "0 and 1 are over");
        puts.end(numbers[2]);
        assert!(puts.is_over(quiet) && !puts.is_over(puts.begun()));
        puts.end(later);
        assert!(puts.is_over(puts.begun()));
    }

    #[test]
    fn wakes_follow_their_puts_and_those_that_wait_become_one() {
        let (mut puts, mut wakes) = (Sequence::default(), Wakes::default());
        assert!(!wakes.due(&puts), "nobody asked");
        wakes.ask(&puts);
        assert!(wakes.due(&puts) && !wakes.due(&puts), "nothing is under way");
        let [one, two, three] = [0; 3].map(|_| puts.begin());
        wakes.ask(&puts);
        let four = puts.begin();
        wakes.ask(&puts);
        wakes.ask(&puts);
        [one, two].into_iter().for_each(|put| puts.end(put));
        assert!(!wakes.due(&puts));
        puts.end(three);
        assert!(wakes.due(&puts) && !wakes.due(&puts));
        puts.end(four);
        assert!(wakes.due(&puts) && !wakes.due(&puts));
    }
}
