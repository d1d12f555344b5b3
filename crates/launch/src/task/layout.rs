//! The hosts of a step of another launcher, from what its tasks report. Pure.

#![forbid(unsafe_code)]

/// The report of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskReport {
    /// The name of its host.
    pub host: String,
    /// The port at which it listens.
    pub port: u16,
    /// The processors that it may use, ascending.
    pub cpus: Vec<usize>,
}

impl TaskReport {
    /// Encodes the report as a word: port, processors as a mask of hexadecimal digits, host.
    pub fn encode(&self) -> String {
        let digits = self.cpus.last().map_or(0, |last| last / 4 + 1);
        let mut mask = vec![0; digits];
        self.cpus.iter().for_each(|cpu| mask[cpu / 4] |= 1 << (cpu % 4));
        let mask: String = mask.iter().rev().map(|digit| format!("{digit:x}")).collect();
        format!("{}:{mask}:{}", self.port, self.host)
    }

    /// Decodes the output of `encode`.
    pub fn decode(word: &str) -> Option<TaskReport> {
        let mut parts = word.splitn(3, ':');
        let (port, mask, host) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = mask.chars().rev().map(|digit| digit.to_digit(16)).collect::<Option<Vec<_>>>();
        let digits = digits?;
        let has = |cpu: &usize| digits[cpu / 4] >> (cpu % 4) & 1 == 1;
        let cpus = (0..digits.len() * 4).filter(has).collect();
        let host = Some(host).filter(|host| !host.is_empty())?.to_owned();
        Some(TaskReport { host, port: port.parse().ok()?, cpus })
    }
}

/// The tasks of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTasks {
    /// The name of the host.
    pub name: String,
    /// Their ranks, ascending; the first serves the others.
    pub ranks: Vec<u32>,
    /// The port of the first.
    pub port: u16,
    /// The processors that they may use together, ascending.
    pub cpus: Vec<usize>,
}

/// Returns the hosts of these tasks, by their first ranks.
pub fn hosts(reports: &[TaskReport]) -> Vec<HostTasks> {
    let mut hosts: Vec<HostTasks> = Vec::new();
    for (rank, report) in (0..).zip(reports) {
        match hosts.iter_mut().find(|host| host.name == report.host) {
            Some(host) => {
                host.ranks.push(rank);
                host.cpus.extend(&report.cpus);
                host.cpus.sort_unstable();
                host.cpus.dedup();
            }
            None => hosts.push(HostTasks {
                name: report.host.clone(),
                ranks: vec![rank],
                port: report.port,
                cpus: report.cpus.clone(),
            }),
        }
    }
    hosts
}

/// Returns true if PE numbers are ranks: PEs are numbered host by host.
pub fn is_in_blocks(hosts: &[HostTasks]) -> bool {
    hosts.iter().flat_map(|host| &host.ranks).is_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(host: &str, port: u16, cpus: &[usize]) -> TaskReport {
        TaskReport { host: host.to_owned(), port, cpus: cpus.to_vec() }
    }

    #[test]
    fn reports_read_back_and_others_are_refused() {
        for cpus in [&[][..], &[0], &[3, 4], &[5, 127, 1023]] {
            let report = report("n-7.site:x", 40_000, cpus);
            assert_eq!(TaskReport::decode(&report.encode()), Some(report));
        }
        for word in ["", "7", "7:f", "7:f:", "7:g:n0", "65536:f:n0", ":f:n0"] {
            assert_eq!(TaskReport::decode(word), None, "{word}");
        }
    }

    #[test]
    fn tasks_of_a_host_share_its_processors_and_its_first_port() {
        let blocks = [report("a", 1, &[0]), report("a", 2, &[1]), report("b", 3, &[0])];
        let found = hosts(&blocks);
        assert!(is_in_blocks(&found));
        let first = HostTasks { name: "a".into(), ranks: vec![0, 1], port: 1, cpus: vec![0, 1] };
        assert_eq!(found[0], first);
        assert_eq!((found[1].port, &found[1].ranks[..]), (3, &[2][..]));
        let cyclic = [report("a", 1, &[0]), report("b", 2, &[0]), report("a", 3, &[0])];
        assert!(!is_in_blocks(&hosts(&cyclic)));
        assert_eq!(hosts(&cyclic)[0].cpus, [0]);
    }
}
