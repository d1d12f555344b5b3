//! The hosts of a job, from the command line or from Slurm's environment, and their numbers of PEs.
//!
//! Pure: text in, lists out. PEs are placed in blocks: the first host gets PEs 0, 1 and so on.
//! Hosts without PEs are spare nodes, on which substitutes for lost PEs are preferably started.
//!
//! Left out: name resolution and reachability, which the start of the host's agent shows.

#![forbid(unsafe_code)]

/// The maximum number of hosts of a job.
pub const HOSTS_MAX: usize = 1 << 13;

/// A host as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// The number of PEs requested there.
    pub pes: Option<usize>,
}

/// A reason why a list of hosts is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// A word that is not a host.
    #[error("--hosts: `{0}`: expected NAME or NAME:PES, separated by commas")]
    Word(String),
    /// A host named twice.
    #[error("--hosts: {0} is named twice; write {0}:PES for several PEs on it")]
    Twice(String),
    /// A line of a file that is not a host.
    #[error("--hostfile {file}:{line}: `{text}`: expected NAME, NAME:PES or NAME slots=PES")]
    Line {
        /// The file.
        file: String,
        /// The line number.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// Slurm's variables are malformed.
    #[error("{name}={value}: not a list as Slurm writes it")]
    Slurm {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The number of hosts is out of range.
    #[error("{0} hosts: expected 1 to {HOSTS_MAX}")]
    Many(usize),
    /// No number of PEs was given.
    #[error("how many PEs? give -n N, -N PES, or --hosts NAME:PES")]
    NoCount,
    /// More PEs were requested than the hosts can take.
    #[error("-n {pes}: the hosts have {room} slots: expected 1 to {room}")]
    Room {
        /// The requested number.
        pes: usize,
        /// The available number.
        room: usize,
    },
    /// The numbers of PEs were given in two ways.
    #[error("-N {0} and --hosts NAME:PES: expected one of the two")]
    Both(usize),
}

/// Parses a list of hosts, such as `a,b:2,c`.
pub fn parse(text: &str) -> Result<Vec<Host>, HostsError> {
    let word = |word: &str| {
        let bad = || HostsError::Word(word.escape_debug().to_string());
        let (name, pes) = match word.split_once(':') {
            Some((name, pes)) => (name, Some(pes.parse().map_err(|_| bad())?)),
            None => (word, None),
        };
        if is_name(name) { Ok(Host { name: name.into(), pes }) } else { Err(bad()) }
    };
    let hosts = text.split(',').map(word).collect::<Result<Vec<Host>, _>>()?;
    for (at, host) in hosts.iter().enumerate() {
        if hosts[..at].iter().any(|other| other.name == host.name) {
            return Err(HostsError::Twice(host.name.clone()));
        }
    }
    if hosts.len() > HOSTS_MAX { Err(HostsError::Many(hosts.len())) } else { Ok(hosts) }
}

/// Parses the lines of a file: `a`, `a:2` or `a slots=2`, with comments after `#`. A repeated host
/// gets one more PE, or the number that line gives.
pub fn parse_file(file: &str, text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts: Vec<Host> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let text = || line.escape_debug().to_string();
        let bad = || HostsError::Line {
            file: file.escape_debug().to_string(),
            line: number,
            text: text(),
        };
        let host = host_of(line).ok_or_else(bad)?;
        match hosts.iter_mut().find(|other| other.name == host.name) {
            Some(other) => {
                let sum = other.pes.unwrap_or(1).saturating_add(host.pes.unwrap_or(1));
                other.pes = Some(sum);
            }
            None => hosts.push(host),
        }
    }
    match hosts.len() {
        1..=HOSTS_MAX => Ok(hosts),
        number => Err(HostsError::Many(number)),
    }
}

/// Parses one line of such a file.
fn host_of(line: &str) -> Option<Host> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let (name, count) = match first.split_once(':') {
        Some((name, count)) => (name, Some(count.parse().ok()?)),
        None => (first, None),
    };
    let mut host = Host { name: is_name(name).then(|| name.to_owned())?, pes: count };
    for word in words {
        let (key, value) = word.split_once('=')?;
        let value: usize = value.parse().ok()?;
        match key {
            "slots" if host.pes.is_none() => host.pes = Some(value),
            "max_slots" | "max-slots" => {} // the slots already limit the PEs
            _ => return None,
        }
    }
    Some(host)
}

/// Returns true if no shell or program can take the name for an option or a path.
fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(letter)
}

/// Returns the hosts of the Slurm allocation that `variable` describes, or None outside one. In a
/// step, Slurm counts the step's tasks rather than slots for PEs, so the hosts get no counts.
pub fn of_slurm(
    variable: impl Fn(&'static str) -> Option<String>,
) -> Option<Result<Vec<Host>, HostsError>> {
    variable("SLURM_JOB_ID")?;
    let (nodes, tasks) = ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE");
    let list = variable(nodes)?;
    let bad =
        |name, value: &str| HostsError::Slurm { name, value: value.escape_debug().to_string() };
    let Some(names) = expand(&list) else { return Some(Err(bad(nodes, &list))) };
    let is_step = variable("SLURM_STEP_TASKS_PER_NODE").is_some();
    let counts = variable(tasks).filter(|_| !is_step);
    let pes: Vec<Option<usize>> = match &counts {
        None => vec![None; names.len()],
        Some(text) => match counts_of(text).filter(|counts| counts.len() >= names.len()) {
            Some(counts) => counts.into_iter().map(Some).collect(),
            None => return Some(Err(bad(tasks, text))),
        },
    };
    Some(Ok(names.into_iter().zip(pes).map(|(name, pes)| Host { name, pes }).collect()))
}

/// Expands `n[01-03,7],login` to `n01 n02 n03 n7 login`; returns None if it is not such a list.
fn expand(list: &str) -> Option<Vec<String>> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                expand_word(&list[start..at], &mut names)?;
                start = at + 1;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            return None;
        }
    }
    (depth == 0 && names.iter().all(|name| is_name(name))).then_some(names)
}

fn expand_word(word: &str, into: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = word.split_once('[') else {
        into.push(word.into());
        return (into.len() <= HOSTS_MAX).then_some(());
    };
    let (ranges, after) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let (low, high) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if low > high || high - low >= HOSTS_MAX {
            return None;
        }
        for number in low..=high {
            let width = first.len();
            expand_word(&format!("{before}{number:0width$}{after}"), into)?;
        }
    }
    Some(())
}

/// Expands `2(x3),1` to 2, 2, 2, 1.
fn counts_of(text: &str) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    for word in text.split(',') {
        let (count, times) = match word.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (word, 1),
        };
        if times > HOSTS_MAX - counts.len().min(HOSTS_MAX) {
            return None;
        }
        counts.extend(std::iter::repeat_n(count.parse::<usize>().ok()?, times));
    }
    Some(counts)
}

/// Computes the number of PEs of each host. `pes` is `-n`, `per_host` is `-N`.
///
/// With counts (or `-N`) the hosts are filled in order; if only some hosts have counts, the others
/// count as 1. Without any, `-n` PEs are spread evenly, in blocks.
pub fn place(
    hosts: &[Host],
    pes: Option<usize>,
    per_host: Option<usize>,
) -> Result<Vec<usize>, HostsError> {
    let counted = hosts.iter().any(|host| host.pes.is_some());
    let room: Vec<usize> = match (per_host, counted) {
        (Some(each), true) => return Err(HostsError::Both(each)),
        (Some(each), false) => vec![each; hosts.len()],
        (None, true) => hosts.iter().map(|host| host.pes.unwrap_or(1)).collect(),
        (None, false) => {
            let pes = pes.ok_or(HostsError::NoCount)?;
            let used = hosts.len().min(pes);
            let even = |host| (0..pes).filter(|pe| pe * used / pes == host).count();
            return Ok((0..hosts.len()).map(even).collect());
        }
    };
    let total: usize = room.iter().fold(0, |sum, &count| sum.saturating_add(count));
    let wanted = pes.unwrap_or(total);
    if wanted > total || total == 0 {
        return Err(HostsError::Room { pes: wanted, room: total });
    }
    let mut left = wanted;
    let take = |room: usize| {
        let taken = room.min(left);
        left -= taken;
        taken
    };
    Ok(room.into_iter().map(take).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[Host]) -> Vec<&str> {
        hosts.iter().map(|host| host.name.as_str()).collect()
    }

    #[test]
    fn host_lists_are_parsed_and_errors_are_named() {
        let hosts = parse("a,b:2,node-7.x.org:0,me@10.0.0.1").unwrap();
        assert_eq!(names(&hosts), ["a", "b", "node-7.x.org", "me@10.0.0.1"]);
        let pes: Vec<_> = hosts.iter().map(|host| host.pes).collect();
        assert_eq!(pes, [None, Some(2), Some(0), None]);
        for bad in ["", "a,,b", "a:", "a:x", "a:-1", "-oProxyCommand=x", "a b", "a;b", "$(x)"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains("NAME:PES"), "{bad}: {error}");
        }
        assert_eq!(parse("a,b,a"), Err(HostsError::Twice("a".into())));
    }

    #[test]
    fn files_of_hosts_are_read_as_open_mpi_and_mpich_write_them() {
        let text = "# all\n\na slots=4 max_slots=8\nb:2 # two\n c\nd slots=0\nc\n";
        let hosts = parse_file("f", text).unwrap();
        assert_eq!(names(&hosts), ["a", "b", "c", "d"]);
        let pes: Vec<_> = hosts.iter().map(|host| host.pes).collect();
        assert_eq!(pes, [Some(4), Some(2), Some(2), Some(0)]);
        let plain = parse_file("f", "a\nb\n").unwrap();
        assert_eq!(place(&plain, Some(4), None), Ok(vec![2, 2]));
        for bad in ["a slots", "a slots=x", "a:1 slots=2", "a b", "-o x", "a;b", "a user=me"] {
            let error = parse_file("f", &format!("a\n{bad}\n")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--hostfile f:2: `{bad}`: expected")), "{error}");
        }
        assert_eq!(parse_file("f", "# none\n"), Err(HostsError::Many(0)));
    }

    #[test]
    fn slurm_lists_are_expanded() {
        let list = |text| expand(text).unwrap_or_default();
        assert_eq!(list("n1"), ["n1"]);
        assert_eq!(list("n[1-3,7],login"), ["n1", "n2", "n3", "n7", "login"]);
        assert_eq!(list("n[08-11]"), ["n08", "n09", "n10", "n11"]);
        assert_eq!(list("r[1-2]n[0-1]x"), ["r1n0x", "r1n1x", "r2n0x", "r2n1x"]);
        for bad in ["", "n[", "n]", "n[]", "n[a]", "n[3-1]", "n[1-99999]", "n[1][", "a,,b"] {
            assert_eq!(expand(bad), None, "{bad}");
        }
        assert_eq!(counts_of("2(x3),1"), Some(vec![2, 2, 2, 1]));
        for bad in ["", "x", "2(x", "2(x3", "2(x99999)"] {
            assert_eq!(counts_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_allocation_is_recognised_by_its_variables() {
        let slurm = |list: &[(&'static str, &str)]| {
            of_slurm(|name| {
                list.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(slurm(&[("SLURM_JOB_NODELIST", "n1")]), None);
        let job = ("SLURM_JOB_ID", "7");
        let (nodes, tasks) = ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE");
        let hosts = slurm(&[job, (nodes, "n[1-3]"), (tasks, "2(x2),1")]).unwrap().unwrap();
        assert_eq!(place(&hosts, None, None), Ok(vec![2, 2, 1]));
        let step = ("SLURM_STEP_TASKS_PER_NODE", "1");
        let hosts = slurm(&[job, (nodes, "n[1-3]"), (tasks, "1"), step]).unwrap().unwrap();
        assert_eq!(place(&hosts, Some(4), None), Ok(vec![2, 1, 1]));
        assert_eq!(place(&hosts, None, None), Err(HostsError::NoCount));
        let error = slurm(&[job, (nodes, "n[1-3]"), (tasks, "2")]).unwrap().unwrap_err();
        assert!(error.to_string().starts_with("SLURM_TASKS_PER_NODE=2"), "{error}");
        let error = slurm(&[job, (nodes, "n[1-")]).unwrap().unwrap_err();
        assert!(error.to_string().starts_with("SLURM_JOB_NODELIST=n[1-"), "{error}");
    }

    #[test]
    fn pes_are_placed_as_users_of_launchers_expect() {
        let on = |list: &str, pes, each| place(&parse(list).unwrap(), pes, each);
        assert_eq!(on("a,b,c", Some(7), None), Ok(vec![3, 2, 2]));
        assert_eq!(on("a,b,c", Some(2), None), Ok(vec![1, 1, 0]));
        assert_eq!(on("a:4,b:2", None, None), Ok(vec![4, 2]));
        assert_eq!(on("a:4,b:2", Some(5), None), Ok(vec![4, 1]));
        assert_eq!(on("a:4,b:2,c:0", None, None), Ok(vec![4, 2, 0]));
        assert_eq!(on("a:4,b", None, None), Ok(vec![4, 1]));
        assert_eq!(on("a,b,c", None, Some(2)), Ok(vec![2, 2, 2]));
        assert_eq!(on("a,b,c", Some(4), Some(2)), Ok(vec![2, 2, 0]));
        assert_eq!(on("a,b", None, None), Err(HostsError::NoCount));
        assert_eq!(on("a:1,b", Some(3), None), Err(HostsError::Room { pes: 3, room: 2 }));
        assert_eq!(on("a:0", None, None), Err(HostsError::Room { pes: 0, room: 0 }));
        assert_eq!(on("a:1,b", None, Some(2)), Err(HostsError::Both(2)));
    }

    #[test]
    fn even_blocks_are_those_of_nodes_on_one_machine() {
        for (pes, hosts) in [(1, 1), (5, 3), (8, 4), (9, 4), (3, 5)] {
            let list: Vec<String> = (0..hosts).map(|n| format!("h{n}")).collect();
            let counts = place(&parse(&list.join(",")).unwrap(), Some(pes), None).unwrap();
            assert_eq!(counts.iter().sum::<usize>(), pes);
            let used = counts.iter().filter(|&&count| count > 0);
            let (low, high) = (used.clone().min().unwrap(), used.max().unwrap());
            assert!(high - low <= 1, "{counts:?}");
        }
    }
}
