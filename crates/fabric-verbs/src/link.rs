//! The handshake between two queue pairs, by greetings that may be lost, duplicated or late.
//!
//! ```text
//! A needs B     A -- have none, want --> B      B connects its queue pair to A's
//!               A <-- have A's, want --- B      A connects, and may send: B is receiving
//!               A -- have B's ---------> B      B may send
//! ```
//!
//! The end that needs the connection repeats its greeting until it may send. Both may start at
//! once. An end sends only after the other has confirmed that it is connected, so no packet is lost
//! to a queue pair that is not ready to receive.
//!
//! Left out: checking that greetings come from the right incarnation, which the caller does.

#![forbid(unsafe_code)]

/// One end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    mine: u32,
    theirs: u32,
    open: bool,
}

/// The handshake part of a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// The sender's queue pair.
    pub qpn: u32,
    /// The receiver's queue pair to which the sender's is connected, or 0.
    pub have: u32,
    /// True if an answer is requested.
    pub want: bool,
}

/// The actions that follow a greeting, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Then {
    /// Connects this end's queue pair to the given one.
    pub connect: Option<u32>,
    /// Sends this greeting.
    pub answer: Option<Greeting>,
}

impl Handshake {
    /// Creates an end with queue pair `mine`, which is not 0.
    pub fn new(mine: u32) -> Handshake {
        Handshake { mine, theirs: 0, open: false }
    }

    /// Returns true if this end may send: the other end is connected.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the greeting to send while the connection is needed and not open.
    pub fn greeting(&self) -> Greeting {
        Greeting { qpn: self.mine, have: self.theirs, want: !self.open }
    }

    /// Handles a greeting of the other end.
    pub fn hear(&mut self, said: Greeting) -> Then {
        let connect = (self.theirs == 0).then_some(said.qpn);
        if self.theirs == 0 {
            self.theirs = said.qpn;
        }
        if self.theirs != said.qpn {
            return Then::default(); // a queue pair of an earlier connection
        }
        self.open |= said.have == self.mine;
        Then { connect, answer: said.want.then(|| self.greeting()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Two ends, and the greetings under way to each.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Pair {
        ends: [Handshake; 2],
        connected: [u32; 2],
        way: [Vec<Greeting>; 2],
    }

    impl Pair {
        fn deliver(&mut self, to: usize, at: usize) {
            let said = self.way[to].remove(at);
            let then = self.ends[to].hear(said);
            if let Some(qpn) = then.connect {
                assert_eq!((self.connected[to], qpn), (0, 20 - 10 * to as u32));
                self.connected[to] = qpn;
            }
            self.way[1 - to].extend(then.answer);
            // If one end may send, the other is connected.
            for end in 0..2 {
                assert!(!self.ends[end].is_open() || self.connected[1 - end] != 0, "{self:?}");
            }
        }
    }

    fn pair() -> Pair {
        let ends = [Handshake::new(10), Handshake::new(20)];
        Pair { ends, connected: [0; 2], way: [Vec::new(), Vec::new()] }
    }

    #[test]
    fn every_order_loss_and_doubling_of_greetings_is_safe() {
        let mut seen = BTreeSet::new();
        let mut open = vec![(pair(), 4, 2)];
        while let Some((now, greetings, doubles)) = open.pop() {
            if !seen.insert(format!("{now:?} {greetings} {doubles}")) {
                continue;
            }
            for end in 0..2 {
                if greetings > 0 && !now.ends[end].is_open() {
                    let mut next = now.clone();
                    next.way[1 - end].push(now.ends[end].greeting());
                    open.push((next, greetings - 1, doubles));
                }
                for at in 0..now.way[end].len() {
                    let mut delivered = now.clone();
                    delivered.deliver(end, at);
                    let mut lost = now.clone();
                    lost.way[end].remove(at);
                    open.extend([(delivered, greetings, doubles), (lost, greetings, doubles)]);
                    if doubles > 0 {
                        let mut doubled = now.clone();
                        let again = doubled.way[end][at];
                        doubled.way[end].push(again);
                        open.push((doubled, greetings, doubles - 1));
                    }
                }
            }
        }
        assert!(seen.len() > 1000, "only {} states", seen.len());
    }

    #[test]
    fn one_end_that_repeats_itself_opens_both_whatever_was_lost() {
        let mut pair = pair();
        for round in 0..3 {
            pair.way[1].push(pair.ends[0].greeting());
            if round == 0 {
                pair.way[1].clear(); // lost
                continue;
            }
            while let Some(to) = (0..2).find(|&to| !pair.way[to].is_empty()) {
                pair.deliver(to, 0);
            }
        }
        assert!(pair.ends.iter().all(Handshake::is_open), "{pair:?}");
    }

    #[test]
    fn a_queue_pair_of_another_time_is_rejected() {
        let mut link = Handshake::new(10);
        link.hear(Greeting { qpn: 20, have: 0, want: false });
        let then = link.hear(Greeting { qpn: 21, have: 10, want: true });
        assert_eq!((then, link.is_open()), (Then::default(), false));
    }
}
