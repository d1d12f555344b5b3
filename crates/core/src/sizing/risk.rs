//! The probability that a group loses more members than it has parities.
//!
//! Nodes are lost at random and independently. Each loss starts a recovery of `recovery` seconds; a
//! further loss anywhere in the job restarts it, since all PEs roll back together. The job is lost
//! if `parity + 1` nodes of one group are lost before a recovery completes. Pure.
//!
//! Left out: several nodes lost by one cause. Declare such causes with `SHMEM_FT_DOMAINS`.

/// Seconds in 30 days, the period that probabilities refer to.
pub const MONTH: f64 = 30.0 * 86_400.0;

/// The parameters of the probability.
#[derive(Debug, Clone, Copy)]
pub struct Exposure {
    /// Nodes of the job.
    pub nodes: f64,
    /// Nodes that carry one group.
    pub group: usize,
    /// Sets of nodes that carry groups.
    pub groups: f64,
    /// Number of nodes of a group whose loss is survivable.
    pub parity: usize,
    /// Seconds between two losses of nodes of the job, on average.
    pub mtbf: f64,
    /// Seconds from a loss until full protection is restored.
    pub recovery: f64,
}

impl Exposure {
    /// Returns the average number of losses of the job per second.
    pub fn rate(&self) -> f64 {
        let first = self.groups * self.group as f64 / (self.nodes * self.mtbf);
        let next = |lost: usize| {
            let again = -(-self.recovery / self.mtbf).exp_m1();
            let here = self.group.saturating_sub(lost) as f64 / self.nodes;
            again * here / (1.0 - again * (1.0 - here))
        };
        first * (1..=self.parity).map(next).product::<f64>()
    }

    /// Returns the probability of losing the job within `seconds`.
    pub fn chance(&self, seconds: f64) -> f64 {
        -(-self.rate() * seconds).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn exposure(parity: usize, recovery: f64) -> Exposure {
        Exposure { nodes: 12.0, group: 4, groups: 3.0, parity, mtbf: 100.0, recovery }
    }

    /// Returns the losses per second of a simulated job: three groups of four nodes.
    fn simulate(of: Exposure, seconds: f64) -> f64 {
        let mut random = Random::new(11);
        let (mut time, mut ends) = (0.0, 0);
        while time < seconds {
            time += random.exponential(of.mtbf);
            let mut lost = vec![random.below(of.nodes as usize)];
            loop {
                let again = random.exponential(of.mtbf);
                time += again.min(of.recovery);
                if again >= of.recovery {
                    break;
                }
                let node = random.below(of.nodes as usize);
                if !lost.contains(&node) {
                    lost.push(node);
                }
                let of_group = |group| lost.iter().filter(|&node| node / of.group == group).count();
                if (0..of.groups as usize).any(|group| of_group(group) > of.parity) {
                    ends += 1;
                    break;
                }
            }
        }
        f64::from(ends) / time
    }

    #[test]
    fn the_rate_is_that_of_simulated_jobs() {
        for (parity, recovery) in [(1, 2.0), (1, 8.0), (2, 8.0)] {
            let of = exposure(parity, recovery);
            let (found, expected) = (simulate(of, 4e7), of.rate());
            assert!((found / expected - 1.0).abs() < 0.1, "{parity}: {found} for {expected}");
        }
    }

    /// The mean time to the loss of a RAID5 group as in textbooks: MTBF^2 / (n (n - 1) MTTR), with
    /// the MTBF of one disk.
    #[test]
    fn short_recoveries_have_the_rate_of_textbooks() {
        let of = Exposure { recovery: 1e-3, nodes: 4.0, groups: 1.0, ..exposure(1, 0.0) };
        let node = of.mtbf * 4.0;
        let textbook = 4.0 * 3.0 * of.recovery / (node * node);
        assert!((of.rate() / textbook - 1.0).abs() < 1e-4);
    }

    #[test]
    fn a_parity_more_is_a_smaller_chance() {
        let chance = |parity| exposure(parity, 5.0).chance(MONTH);
        assert!(chance(1) > chance(2) && chance(2) > chance(3));
        assert_eq!(exposure(0, 5.0).rate(), 0.01, "every loss is one of the job");
    }
}
