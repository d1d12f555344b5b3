//! The user's file of failure domains: the rack, switch or power feed of each host.
//!
//! ```toml
//! [rack]                               # a kind of failure domain, named as you like
//! left = ["node[01-16]"]               # its domains, each with the hosts in it
//! right = ["node[17-31]", "login"]
//!
//! [power]                              # kinds may be nested, or cross each other
//! a = ["node[01-08,17-24]"]
//! b = ["node[09-16,25-31]", "login"]
//! ```
//!
//! A host is a name or a pattern, in which `[01-16,20]` expands to these numbers, padded to as many
//! digits as the first bound of their range has. A file may name more hosts than a job uses, but
//! must name each host of the job once in every kind.
//!
//! Format: TOML 1.0, <https://toml.io>. An error is one line with file and line number.

use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::domains::{DomainKind, Domains, Source};

/// An invalid file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {what}")]
pub struct FileError {
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The error on that line.
    pub what: Box<Wrong>,
}

/// An error on a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Wrong {
    /// The text is not valid TOML.
    #[error("{message}: expected tables of hosts, as [rack] with left = ['node[01-16]']")]
    Syntax {
        /// The TOML parser's message.
        message: String,
    },
    /// The text is TOML of an unexpected structure.
    #[error("{name} is {found}: expected tables of hosts, as [rack] with left = ['node[01-16]']")]
    Shape {
        /// The name of the misplaced item.
        name: String,
        /// Its actual type.
        found: String,
    },
    /// A kind has a reserved name.
    #[error("[{name}] is built in: expected the name of a domain above nodes, such as rack")]
    Reserved {
        /// The name.
        name: String,
    },
    /// A pattern is invalid.
    #[error("`{text}` is not a host: expected a name, or a pattern such as node[01-16,20]")]
    Pattern {
        /// The pattern.
        text: String,
    },
    /// A host is in two domains of a kind.
    #[error("host {host} is in {kind} {first} and in {kind} {second}: expected one for each host")]
    Twice {
        /// The host.
        host: String,
        /// The kind.
        kind: String,
        /// Its domain according to an earlier line.
        first: String,
        /// Its domain according to this line.
        second: String,
    },
    /// A host of the job is in no domain of a kind.
    #[error("host {host} of this job is in no {kind}: expected a host that [{kind}] names")]
    Unknown {
        /// The host.
        host: String,
        /// The kind.
        kind: String,
    },
}

/// Parses the failure domains of the hosts of a job from `text`, the contents of `file`.
///
/// # Errors
/// The first error in the file.
pub fn parse(file: &str, text: &str, hosts: Vec<String>) -> Result<Domains, FileError> {
    let reader = Reader { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join(" ");
        reader.error(error.span().unwrap_or(0..0), Wrong::Syntax { message })
    })?;
    let mut kinds: Vec<_> = table.get_ref().iter().collect();
    kinds.sort_by_key(|(name, _)| name.span().start);
    if kinds.is_empty() {
        let (name, found) = ("the file".to_owned(), "empty".to_owned());
        return Err(reader.error(0..0, Wrong::Shape { name, found }));
    }
    let kind = |(name, value): (&Spanned<_>, &Spanned<DeValue>)| reader.kind(name, value, &hosts);
    let kinds = kinds.into_iter().map(kind).collect::<Result<_, _>>()?;
    Ok(Domains::of_hosts(hosts).with_kinds(kinds))
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, what: Wrong) -> FileError {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|&&byte| byte == b'\n').count();
        FileError { file: self.file.to_owned(), line, what: Box::new(what) }
    }

    fn shape(&self, name: &str, value: &Spanned<DeValue>) -> FileError {
        let found = match value.get_ref() {
            DeValue::Array(hosts) if hosts.is_empty() => "an empty array".to_owned(),
            other => format!("of type {}", other.type_str()),
        };
        self.error(value.span(), Wrong::Shape { name: name.to_owned(), found })
    }

    fn kind(
        &self,
        name: &Name,
        value: &Spanned<DeValue>,
        hosts: &[String],
    ) -> Result<DomainKind, FileError> {
        let kind = name.get_ref().to_string();
        if ["node", "host", "process", "pe"].contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(self.error(name.span(), Wrong::Reserved { name: kind }));
        }
        let table = value.get_ref().as_table().ok_or_else(|| self.shape(&kind, value))?;
        let mut lines: Vec<_> = table.iter().collect();
        lines.sort_by_key(|(domain, _)| domain.span().start);
        let domains: Vec<String> =
            lines.iter().map(|(name, _)| name.get_ref().to_string()).collect();
        let mut of: Vec<Option<usize>> = vec![None; hosts.len()];
        for (at, (_, value)) in lines.into_iter().enumerate() {
            for (pattern, span) in self.patterns(&domains[at], value)? {
                let matching = hosts.iter().zip(&mut of).filter(|(host, _)| pattern.matches(host));
                for (host, of) in matching {
                    if let Some(first) = of.replace(at) {
                        let first = domains[first].clone();
                        let (host, second) = (host.clone(), domains[at].clone());
                        let twice = Wrong::Twice { host, kind, first, second };
                        return Err(self.error(span, twice));
                    }
                }
            }
        }
        if let Some(at) = of.iter().position(Option::is_none) {
            let host = hosts[at].clone();
            return Err(self.error(name.span(), Wrong::Unknown { host, kind }));
        }
        Ok(DomainKind {
            name: kind,
            domains,
            of: of.into_iter().flatten().collect(),
            source: Source::User,
        })
    }

    fn patterns(
        &self,
        domain: &str,
        value: &Spanned<DeValue>,
    ) -> Result<Vec<(Pattern, Range<usize>)>, FileError> {
        let hosts = value.get_ref().as_array().filter(|hosts| !hosts.is_empty());
        let hosts = hosts.ok_or_else(|| self.shape(domain, value))?;
        let pattern = |host: &Spanned<DeValue>| {
            let text = host.get_ref().as_str().ok_or_else(|| self.shape(domain, host))?;
            let wrong = || self.error(host.span(), Wrong::Pattern { text: text.to_owned() });
            Ok((Pattern::parse(text).ok_or_else(wrong)?, host.span()))
        };
        hosts.iter().map(pattern).collect()
    }
}

/// A host name pattern, with numeric ranges in some places.
#[derive(Debug, PartialEq, Eq)]
struct Pattern(Vec<NamePart>);

#[derive(Debug, PartialEq, Eq)]
enum NamePart {
    Text(String),
    /// First number, last number and minimum digits of each range.
    Numbers(Vec<(u64, u64, usize)>),
}

impl Pattern {
    fn parse(text: &str) -> Option<Pattern> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let (ranges, after) = after.split_once(']')?;
            parts.push(NamePart::Text(literal(before)?));
            parts.push(NamePart::Numbers(ranges.split(',').map(range).collect::<Option<_>>()?));
            rest = after;
        }
        parts.push(NamePart::Text(literal(rest)?));
        (!text.is_empty()).then_some(Pattern(parts))
    }

    fn matches(&self, host: &str) -> bool {
        matches(&self.0, host)
    }
}

/// Checks a part of a host name (RFC 1123, section 2.1, and the underscore that many sites use).
fn literal(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    text.chars().all(fits).then(|| text.to_owned())
}

/// Parses `01-16` or `7`.
fn range(text: &str) -> Option<(u64, u64, usize)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(first)?, number(last)?);
    (from <= to).then_some((from, to, first.len()))
}

fn matches(parts: &[NamePart], host: &str) -> bool {
    match parts.split_first() {
        None => host.is_empty(),
        Some((NamePart::Text(text), after)) => {
            host.strip_prefix(text.as_str()).is_some_and(|rest| matches(after, rest))
        }
        Some((NamePart::Numbers(ranges), after)) => {
            let digits = host.bytes().take_while(u8::is_ascii_digit).count();
            (1..=digits).any(|len| {
                let (number, rest) = host.split_at(len);
                let one_of = |&(from, to, width): &(u64, u64, usize)| {
                    let value = number.parse::<u64>().ok().filter(|n| (from..=to).contains(n));
                    value.is_some_and(|value| format!("{value:0width$}") == number)
                };
                ranges.iter().any(one_of) && matches(after, rest)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn four() -> Vec<String> {
        hosts(&["node0", "node1", "node2", "node3"])
    }

    #[test]
    fn kinds_domains_and_hosts_in_the_order_of_the_file() {
        let text = "[rack]\nz = ['node[0-1]']\na = ['node2', 'node[3-9]']\n\
                    [power]\none = ['node[0,2]']\ntwo = ['node[1-1,3]', 'other']\n";
        let domains = parse("f", text, four()).unwrap();
        assert_eq!(domains.kinds(), 0..=2);
        let shown: Vec<Vec<String>> = domains
            .kinds()
            .map(|kind| (0..4).map(|node| domains.name(kind, domains.of(kind, node))).collect())
            .collect();
        let rows = [["node0", "node1", "node2", "node3"], ["z", "z", "a", "a"]];
        assert_eq!(shown[..2], rows.map(|row| hosts(&row)));
        assert_eq!(shown[2], hosts(&["one", "two", "one", "two"]));
        assert_eq!([0, 1, 2].map(|kind| domains.kind_name(kind)), ["node", "rack", "power"]);
        assert_eq!(
            [(0, 0), (0, 1), (0, 2), (0, 3)].map(|(a, b)| domains.separation(a, b)),
            [0, 2, 2, 3]
        );
    }

    #[test]
    fn patterns_mean_what_they_say() {
        let fits = |pattern: &str, host: &str| Pattern::parse(pattern).unwrap().matches(host);
        for host in ["n01", "n09", "n10", "n16", "n20"] {
            assert!(fits("n[01-16,20]", host), "{host}");
        }
        for host in ["n1", "n00", "n17", "n001", "n", "n0x", "n16a", "m01", "n020"] {
            assert!(!fits("n[01-16,20]", host), "{host}");
        }
        assert!(fits("r[0-3]n[08-11]-ib", "r3n11-ib") && !fits("r[0-3]n[08-11]-ib", "r4n11-ib"));
        assert!(fits("a[1-20]0", "a20") && fits("a[1-20]0", "a100") && !fits("a[1-20]0", "a210"));
        assert!(fits("login.site_1", "login.site_1") && !fits("login", "login2"));
        assert!(fits("n[0-18446744073709551615]", "n123456789012"));
        for bad in ["", "n[", "n]", "n[]", "n[1-]", "n[2-1]", "n[a-b]", "n[1,]", "n 1", "n*"] {
            assert_eq!(Pattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn errors_are_one_line_with_their_place() {
        let table: &[(&str, &str)] = &[
            ("", "rack.toml:1: the file is empty: expected tables of hosts"),
            ("\n[rack\n", "rack.toml:2: "),
            ("[rack]\nleft = [\n", "rack.toml:"),
            ("[rack]\nleft = ['node[0-3]']\nleft = ['x']", "rack.toml:3: duplicate key"),
            ("a = 1", "rack.toml:1: a is of type integer: expected tables"),
            ("[rack]\nleft = 'node0'", "rack.toml:2: left is of type string: expected"),
            ("[rack]\nleft = []", "rack.toml:2: left is an empty array: expected"),
            ("[rack]\nleft = ['node0',\n 7]", "rack.toml:3: left is of type integer: expected"),
            ("[rack]\nleft = ['n[3-1]']", "rack.toml:2: `n[3-1]` is not a host: expected a name"),
            ("[Node]\nx = ['a']", "rack.toml:1: [Node] is built in: expected the name"),
            (
                "[rack]\nleft = ['node[0-2]']\nright = [\n 'node3',\n 'node[2-3]']",
                "rack.toml:5: host node2 is in rack left and in rack right: expected one for each \
                 host",
            ),
            (
                "# racks\n[rack]\nleft = ['node[0-2]']",
                "rack.toml:2: host node3 of this job is in no rack: expected a host that [rack] \
                 names",
            ),
        ];
        for (text, line) in table {
            let error = parse("rack.toml", text, four()).unwrap_err().to_string();
            assert!(error.starts_with(line) && !error.contains('\n'), "{text}\n{error}");
        }
    }
}
