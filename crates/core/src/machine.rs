//! The processors of a machine as data: cores, NUMA nodes and packages.

/// A hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its number in the kernel.
    pub cpu: usize,
    /// Its core, numbered from 0 by this library.
    pub core: usize,
    /// The NUMA node of its local memory, numbered by the kernel.
    pub numa: usize,
    /// Its package, numbered by the kernel.
    pub package: usize,
}

/// The usable processors of a machine, neighbours next to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The processors, sorted by NUMA node, then by core, so that each is contiguous.
    pub processors: Vec<Processor>,
}

impl Machine {
    /// Creates a machine of these processors; `core` may be any number that distinguishes cores.
    pub fn new(mut processors: Vec<Processor>) -> Machine {
        processors.sort_by_key(|p| (p.numa, p.core, p.cpu));
        let mut before = None;
        let mut core = 0;
        for processor in &mut processors {
            let own = Some((processor.numa, processor.core));
            core += usize::from(before.is_some() && before != own);
            before = own;
            processor.core = core;
        }
        Machine { processors }
    }

    /// Returns the number of cores with usable threads.
    pub fn cores(&self) -> usize {
        self.processors.last().map_or(0, |last| last.core + 1)
    }
}

/// Parses the kernel's notation for a set of numbers, such as `0-3,8`.
pub fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Formats ascending numbers: the inverse of [`list`].
pub fn show(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers() {
        assert_eq!(list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(show(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!((list(""), show(&[])), (Vec::new(), String::new()));
    }

    #[test]
    fn cores_are_numbered_in_the_order_of_nearness() {
        let processor = |cpu, core, numa| Processor { cpu, core, numa, package: 0 };
        let mixed = vec![processor(0, 0, 0), processor(1, 7, 1), processor(2, 0, 0)];
        let machine = Machine::new(mixed);
        assert_eq!(
            machine.processors,
            [(0, 0, 0), (2, 0, 0), (1, 1, 1)].map(|(a, b, c)| { processor(a, b, c) })
        );
        assert_eq!(machine.cores(), 2);
    }
}
