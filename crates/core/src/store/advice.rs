//! A plan of the objects that checkpoints leave out, as `oshadvise -o` writes it.
//!
//! ```toml
//! build = "4f2a..."                  # the program that it is for
//!
//! [[object]]                         # a variable
//! name = "table"
//! at = "main.c:5"
//! address = 16480                    # from where the executable begins
//! bytes = 8192
//!
//! [[object]]                         # blocks of the symmetric heap
//! name = "grid"
//! at = "main.c:14"
//! code = [[4400, 4421]]              # the code of the line that allocates them
//!
//! [[place]]                          # a call of the checkpoint
//! at = "main.c:16"
//! code = [[4500, 4532]]
//! dead = [0, 1]                      # objects, counted from 0
//! ```
//!
//! Invariants: an object is left out only at a call site where it is dead; at an unknown call site
//! everything is saved. A block belongs to the object that it was allocated as until it is freed or
//! resized.
//!
//! Left out: the correctness of the plan, which is up to the adviser, and finding the caller.

use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::mutant::{Mutant, breaks};
use crate::page::PAGE;

/// The reason why a file is not a valid plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}: expected a plan that oshadvise -o wrote")]
pub struct AdviceError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the fault.
    pub what: String,
}

/// Location of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lies {
    /// A variable: its addresses, relative to the start of the executable.
    Static(Range<u64>),
    /// Blocks of the heap: the code that allocates them.
    Blocks(Vec<Range<u64>>),
}

/// Memory that some checkpoints leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Name of the object.
    pub name: String,
    /// File and line of its declaration or allocation.
    pub at: String,
    /// Location of the object.
    pub lies: Lies,
}

/// A call of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advised {
    /// File and line of the call.
    pub at: String,
    /// Code ranges of the call.
    pub code: Vec<Range<u64>>,
    /// Indices of the objects that it leaves out.
    pub dead: Vec<usize>,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Build ID of the program that the plan is for, in hexadecimal digits.
    pub build: String,
    /// Objects that at least one call leaves out.
    pub objects: Vec<Subject>,
    /// Calls of the checkpoint.
    pub places: Vec<Advised>,
}

/// A block of the heap: its bytes, and the index of its object.
pub type Block = (Range<usize>, usize);

impl Advice {
    /// Parses a plan.
    ///
    /// # Errors
    /// The first fault in `text`.
    pub fn parse(text: &str) -> Result<Advice, AdviceError> {
        let reader = Reader { text };
        let table = DeTable::parse(text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join(" ");
            reader.error(error.span().unwrap_or(0..0), message)
        })?;
        let table = Table { reader: &reader, span: 0..0, of: table.get_ref() };
        let objects: Vec<Subject> =
            table.tables("object")?.iter().map(Table::object).collect::<Result<_, _>>()?;
        let place = |table: &Table| table.place(objects.len());
        let places = table.tables("place")?.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Advice { build: table.text("build")?, objects, places })
    }

    /// Formats the plan as a file.
    #[must_use]
    pub fn text(&self) -> String {
        let ranges = |of: &[Range<u64>]| {
            let pairs = of.iter().map(|range| format!("[{}, {}]", range.start, range.end));
            format!("[{}]", pairs.collect::<Vec<_>>().join(", "))
        };
        let mut text = format!("build = {}\n", quoted(&self.build));
        for Subject { name, at, lies } in &self.objects {
            let lies = match lies {
                Lies::Static(range) => {
                    format!("address = {}\nbytes = {}", range.start, range.end - range.start)
                }
                Lies::Blocks(code) => format!("code = {}", ranges(code)),
            };
            let (name, at) = (quoted(name), quoted(at));
            text += &format!("\n[[object]]\nname = {name}\nat = {at}\n{lies}\n");
        }
        for Advised { at, code, dead } in &self.places {
            let (at, code) = (quoted(at), ranges(code));
            text += &format!("\n[[place]]\nat = {at}\ncode = {code}\ndead = {dead:?}\n");
        }
        text
    }

    /// Returns the place whose call returns to `address`.
    #[must_use]
    pub fn place(&self, address: u64) -> Option<usize> {
        self.places.iter().position(|place| covers(&place.code, address))
    }

    /// Returns the object of the blocks that are allocated by a call returning to `address`.
    #[must_use]
    pub fn allocated(&self, address: u64) -> Option<usize> {
        self.objects.iter().position(|object| match &object.lies {
            Lies::Blocks(code) => covers(code, address),
            Lies::Static(_) => false,
        })
    }

    /// Returns the ranges that a checkpoint at `place` leaves out, in order: dead `blocks` of the
    /// heap, and dead variables at the addresses that `find` returns.
    pub fn left_out(
        &self,
        place: usize,
        blocks: &[Block],
        find: impl Fn(&Range<u64>) -> Option<Range<usize>>,
    ) -> Vec<Range<usize>> {
        let mut dead = self.places.get(place).map_or(Vec::new(), |place| place.dead.clone());
        if breaks(Mutant::PlaceIgnored) {
            dead = (0..self.objects.len()).collect();
        }
        let variables = dead.iter().filter_map(|&object| match &self.objects[object].lies {
            Lies::Static(range) => find(range),
            Lies::Blocks(_) => None,
        });
        let blocks = blocks.iter().filter(|(_, object)| dead.contains(object));
        let blocks = blocks.map(|(range, _)| range.clone());
        joined(variables.chain(blocks).collect())
    }
}

/// Quotes `text` as a TOML string.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// True if `code` contains the call that returns to `address`.
fn covers(code: &[Range<u64>], address: u64) -> bool {
    // A return address may be the first byte after the range, so look up the byte before it.
    address.checked_sub(1).is_some_and(|at| code.iter().any(|range| range.contains(&at)))
}

/// Returns the union of ranges, in order.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// Shrinks ranges to whole pages, so that the remaining bytes of a segment keep their page offsets.
#[must_use]
pub fn whole_pages(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let inside = |range: Range<usize>| range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
    ranges.into_iter().map(inside).filter(|range| !range.is_empty()).collect()
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, what: String) -> AdviceError {
        let before = self.text.as_bytes().iter().take(span.start);
        AdviceError { line: 1 + before.filter(|&&byte| byte == b'\n').count(), what }
    }
}

/// A table of the file.
struct Table<'a> {
    reader: &'a Reader<'a>,
    span: Range<usize>,
    of: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    fn get(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.of.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    fn no(&self, name: &str) -> AdviceError {
        let span = self.get(name).map_or(self.span.clone(), Spanned::span);
        let what = if self.get(name).is_some() { "is not what it should be" } else { "is missing" };
        self.reader.error(span, format!("{name} {what}"))
    }

    fn tables(&self, name: &str) -> Result<Vec<Table<'a>>, AdviceError> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let array = value.get_ref().as_array().ok_or_else(|| self.no(name))?;
        let table = |value: &'a Spanned<DeValue<'a>>| {
            let of = value.get_ref().as_table().ok_or_else(|| self.no(name))?;
            Ok(Table { reader: self.reader, span: value.span(), of })
        };
        array.iter().map(table).collect()
    }

    fn text(&self, name: &str) -> Result<String, AdviceError> {
        let text = self.get(name).and_then(|value| value.get_ref().as_str());
        text.map(str::to_owned).ok_or_else(|| self.no(name))
    }

    fn number(&self, name: &str) -> Result<u64, AdviceError> {
        self.get(name).and_then(number).ok_or_else(|| self.no(name))
    }

    fn list<T>(
        &self,
        name: &str,
        of: impl Fn(&'a Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Result<Vec<T>, AdviceError> {
        let array = self.get(name).and_then(|value| value.get_ref().as_array());
        let all = array.and_then(|array| array.iter().map(of).collect());
        all.ok_or_else(|| self.no(name))
    }

    fn code(&self) -> Result<Vec<Range<u64>>, AdviceError> {
        self.list("code", |pair| {
            let pair = pair.get_ref().as_array()?;
            let (from, to) = (number(pair.first()?)?, number(pair.get(1)?)?);
            (pair.iter().count() == 2 && from < to).then_some(from..to)
        })
    }

    fn object(&self) -> Result<Subject, AdviceError> {
        let lies = if self.get("code").is_some() {
            Lies::Blocks(self.code()?)
        } else {
            let (from, bytes) = (self.number("address")?, self.number("bytes")?);
            Lies::Static(from..from.checked_add(bytes).ok_or_else(|| self.no("bytes"))?)
        };
        Ok(Subject { name: self.text("name")?, at: self.text("at")?, lies })
    }

    fn place(&self, objects: usize) -> Result<Advised, AdviceError> {
        let object = |value| {
            let at = usize::try_from(number(value)?).ok()?;
            (at < objects).then_some(at)
        };
        let dead = self.list("dead", object)?;
        Ok(Advised { at: self.text("at")?, code: self.code()?, dead })
    }
}

fn number(value: &Spanned<DeValue>) -> Option<u64> {
    let number = value.get_ref().as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Advice {
        let object =
            |name: &str, lies| Subject { name: name.into(), at: "a \"b\".c:5".into(), lies };
        Advice {
            build: "0badf00d".into(),
            objects: vec![
                object("table", Lies::Static(16480..16480 + 8192)),
                object("grid", Lies::Blocks(vec![4400..4421, 4500..4501])),
            ],
            places: vec![
                Advised {
                    at: "a.c:16".into(),
                    code: vec![5000..5016, 5016..5032],
                    dead: vec![0, 1],
                },
                Advised { at: "a.c:20".into(), code: vec![5032..5036, 5036..5040], dead: vec![] },
            ],
        }
    }

    #[test]
    fn a_plan_reads_back() {
        assert_eq!(Advice::parse(&sample().text()), Ok(sample()));
        assert_eq!(Advice::parse("build = \"1\"").unwrap().places, []);
        let at = "it's \u{e9}\u{7f}\n\\\u{1}.c:1".to_owned();
        let named =
            Advice { places: vec![Advised { at, ..sample().places[1].clone() }], ..sample() };
        assert_eq!(Advice::parse(&named.text()), Ok(named));
    }

    #[test]
    fn an_invalid_plan_is_one_line() {
        for (text, expected) in [
            ("", "line 1: build is missing"),
            ("x = [", "line 1: "),
            ("build = 7", "line 1: build is not what it should be"),
            ("build = \"1\"\n[[place]]\nat = \"x\"\ncode = []\ndead = [0]", "line 5: dead is not"),
            ("build = \"1\"\n[[place]]\nat = \"x\"\ncode = [[2, 1]]\ndead = []", "line 4: code is"),
            ("build = \"1\"\n[[object]]\nname = \"x\"", "line 2: address is missing"),
            ("build = \"1\"\nobject = 3", "line 2: object is not"),
        ] {
            let error = Advice::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn an_address_is_of_the_call_before_it() {
        let plan = sample();
        let found: Vec<_> = [5000, 5001, 5032, 5033, 5041].map(|at| plan.place(at)).into();
        assert_eq!(found, [None, Some(0), Some(0), Some(1), None]);
        assert_eq!(
            (plan.allocated(4421), plan.allocated(4501), plan.allocated(4502)),
            (Some(1), Some(1), None)
        );
    }

    #[test]
    fn only_what_is_dead_at_the_place_is_left_out() {
        let plan = sample();
        let find = |range: &Range<u64>| Some(range.start as usize..range.end as usize);
        let blocks = [(100_000..120_000, 1), (120_000..120_010, 1), (200_000..200_100, 9)];
        let out = plan.left_out(0, &blocks, find);
        assert_eq!(out, [16480..24672, 100_000..120_010]);
        assert_eq!(plan.left_out(1, &blocks, find), []);
        assert_eq!(plan.left_out(7, &blocks, find), []);
        assert_eq!(plan.left_out(0, &[], |_| None), []);
    }

    #[test]
    fn of_what_is_left_out_whole_pages_stay() {
        let ranges = vec![PAGE + 1..6 * PAGE - 1, 25 * PAGE - 100..29 * PAGE + 5];
        assert_eq!(whole_pages(ranges), [2 * PAGE..5 * PAGE, 25 * PAGE..29 * PAGE]);
        assert_eq!(whole_pages(vec![1..PAGE + 1, PAGE - 1..2 * PAGE - 1]), []);
    }
}
