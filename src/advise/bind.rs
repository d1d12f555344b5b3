//! Binding of the source-level advice on checkpoints to one compiled program: makes a plan.
//!
//! The program's debug information maps code to lines, its symbols locate its variables. Unmatched
//! items stay in every checkpoint:
//!
//! - a variable whose name and size are ambiguous, or occur a different number of times than in the
//!   source;
//! - a line without code. The optimiser may then have moved its code to another line, so memory
//!   that is live there is not left out elsewhere.
//!
//! A compiler that folds equal functions merges their lines, so code that GCC may have folded is
//! rejected; `-fno-ipa-icf` prevents it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use object::{Object as _, ObjectSection as _};
use raidshmem_advise::ir::SourceLine;
use raidshmem_advise::leave::{Leave, VariableSymbol};
use raidshmem_archive::program::{self, Program, Variable};
use raidshmem_core::page::PAGE;
use raidshmem_core::store::advice::{Advice, Advised, Lies, Subject};
use raidshmem_sys::input::{self, Pipes};

use super::{BUILT_MAX, check_plain};

/// The reasons why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The program cannot be read.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// The file is not a program.
    #[error("{0}: {1}: expected the program that was built from these files")]
    Program(String, String),
    /// It has no line information.
    #[error("{0}: no code of {1}: expected the program built from these files, with -g")]
    NoLines(String, String),
    /// Equal functions may have been folded.
    #[error(
        "{0}: {1} was compiled with -O2 or more and may have equal functions folded: compile it \
         with -fno-ipa-icf"
    )]
    Folded(String, String),
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Code by line.
struct Code {
    /// File, line, and addresses relative to the start of the executable.
    rows: Vec<(String, u32, Range<u64>)>,
}

/// Makes the plan of a program.
///
/// # Errors
/// The program is not built from this source, or in a way that a plan cannot describe.
pub fn bind(path: &Path, leave: &Leave) -> Result<Advice, BindError> {
    let name = path.display().to_string();
    let bytes = check_plain(path).and_then(|()| input::bytes(path, BUILT_MAX, Pipes::Refused));
    let bytes = bytes.map_err(|error| BindError::File(name.clone(), error))?;
    let wrong = |error: String| BindError::Program(name.clone(), error);
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&*bytes)
        .map_err(|error| wrong(error.to_string()))?;
    let section = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
        let data = file.section_by_name(id.name()).and_then(|is| is.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).map_err(|error| wrong(error.to_string()))?;
    if let Some(unit) = folded(&dwarf).map_err(|error| wrong(error.to_string()))? {
        return Err(BindError::Folded(name, unit));
    }
    let program = program::read(&bytes);
    let code = lines(dwarf, &program).map_err(|error| wrong(error.to_string()))?;
    if let Some((place, _)) = leave.dead.first()
        && leave.dead.iter().all(|(place, _)| code.of(place).is_empty())
    {
        return Err(BindError::NoLines(name, place.file.clone()));
    }
    Ok(advice(leave, &program, &code))
}

/// Returns a file whose equal functions may have been folded.
fn folded(dwarf: &gimli::Dwarf<Slice<'_>>) -> Result<Option<String>, gimli::Error> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        let Some((_, entry)) = entries.next_dfs()? else { continue };
        let text = |of| -> Result<String, gimli::Error> {
            let Some(value) = entry.attr_value(of)? else { return Ok(String::new()) };
            Ok(dwarf.attr_string(&unit, value)?.to_string_lossy().into_owned())
        };
        let producer = text(gimli::DW_AT_producer)?;
        let has = |word: &str| producer.split(' ').any(|is| is == word);
        let optimised = ["-O2", "-O3", "-Os", "-Ofast", "-Oz"].iter().any(|word| has(word));
        let asked = has("-fipa-icf") || has("-fipa-icf-functions");
        if producer.starts_with("GNU C") && (optimised || asked) && !has("-fno-ipa-icf") {
            return Ok(Some(text(gimli::DW_AT_name)?));
        }
    }
    Ok(None)
}

/// Returns the start address of the executable.
fn beginning(program: &Program) -> u64 {
    const LOAD: u32 = 1;
    let loads = program.segments.iter().filter(|segment| segment.kind == LOAD);
    let first = loads.map(|segment| segment.address).min().unwrap_or(0);
    first / PAGE as u64 * PAGE as u64
}

fn lines(dwarf: gimli::Dwarf<Slice<'_>>, program: &Program) -> Result<Code, gimli::Error> {
    let begin = beginning(program);
    let context = addr2line::Context::from_dwarf(dwarf)?;
    let mut rows = Vec::new();
    for (from, len, location) in context.find_location_range(0, u64::MAX)? {
        let (Some(file), Some(line)) = (location.file, location.line) else { continue };
        let from = from.saturating_sub(begin);
        rows.push((basename(file).to_owned(), line, from..from + len));
    }
    Ok(Code { rows })
}

fn basename(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

impl Code {
    /// Returns the code of a line, in order.
    fn of(&self, place: &SourceLine) -> Vec<Range<u64>> {
        let file = basename(&place.file);
        let rows = self.rows.iter().filter(|row| row.1 == place.line && row.0 == file);
        let mut all: Vec<Range<u64>> = rows.map(|row| row.2.clone()).collect();
        all.retain(|range| !range.is_empty());
        all.sort_unstable_by_key(|range| (range.start, range.end));
        all.dedup();
        all
    }
}

/// Returns the plan: the memory that can be left out for this program.
fn advice(leave: &Leave, program: &Program, code: &Code) -> Advice {
    let begin = beginning(program);
    let nowhere = |place: &SourceLine| code.of(place).is_empty();
    // Variables and blocks that may be left out although the optimiser may have moved code.
    let mut lost: BTreeSet<usize> =
        (0..).take(leave.variables.len() + leave.blocks.len()).collect();
    for (_, dead) in leave.dead.iter().filter(|(place, _)| nowhere(place)) {
        lost = lost.intersection(dead).copied().collect();
    }
    let hidden: Vec<usize> =
        leave.blocks.iter().filter(|of| nowhere(&of.place)).map(|of| of.number).collect();
    let (mut objects, mut numbers) = (Vec::new(), Vec::new());
    let at = |place: &SourceLine| format!("{}:{}", place.file, place.line);
    for variable in &program.variables {
        let all = matching(&leave.variables, variable, &program.variables);
        let Some(first) = all.first() else { continue };
        let from = variable.address.saturating_sub(begin);
        objects.push(Subject {
            name: first.name.clone(),
            at: at(&first.place),
            lies: Lies::Static(from..from + variable.len),
        });
        numbers.push(all.iter().map(|of| of.number).collect::<Vec<_>>());
    }
    for blocks in leave.blocks.iter().filter(|of| !nowhere(&of.place)) {
        let (name, at) = (blocks.name.clone(), at(&blocks.place));
        objects.push(Subject { name, at, lies: Lies::Blocks(code.of(&blocks.place)) });
        numbers.push([&[blocks.number], hidden.as_slice()].concat());
    }
    let places = leave.dead.iter().filter(|(place, _)| !nowhere(place)).map(|(place, dead)| {
        let left = |number: &usize| dead.contains(number) && lost.contains(number);
        let all = numbers.iter().enumerate().filter(|(_, of)| of.iter().all(left));
        Advised { at: at(place), code: code.of(place), dead: all.map(|found| found.0).collect() }
    });
    let mut places: Vec<Advised> = places.collect();
    // Keep only the objects that are left out somewhere.
    let used: BTreeSet<usize> = places.iter().flat_map(|place| place.dead.clone()).collect();
    let used: Vec<usize> = used.into_iter().collect();
    let number = |at: &mut usize| *at = used.binary_search(at).unwrap_or_default();
    places.iter_mut().flat_map(|place| &mut place.dead).for_each(number);
    let objects = used.into_iter().map(|at| objects[at].clone()).collect();
    Advice { build: program::digits(&program.build), objects, places }
}

/// Returns the variables of the source that a program's variable may be; empty in case of doubt.
fn matching<'a>(
    all: &'a [VariableSymbol],
    is: &Variable,
    others: &[Variable],
) -> Vec<&'a VariableSymbol> {
    let plain = |name: &str| match name.rsplit_once('.') {
        Some((begin, end)) if end.bytes().all(|byte| byte.is_ascii_digit()) => begin.to_owned(),
        _ => name.to_owned(),
    };
    let own = plain(&is.name);
    let named = |of: &&VariableSymbol| match is.file.is_empty() {
        true => !of.internal && of.symbol == is.name,
        false => {
            let names = of.symbol == is.name || of.symbol == own || of.name == own;
            of.internal && names && basename(&of.place.file) == basename(&is.file)
        }
    };
    let found: Vec<&VariableSymbol> = all.iter().filter(named).collect();
    let same = |other: &&Variable| plain(&other.name) == own && other.file == is.file;
    let fits = found.iter().all(|of| of.bytes == Some(is.len)) || found.len() > 1;
    match fits && others.iter().filter(same).count() <= found.len() {
        true => found,
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(symbol: &str, name: &str, internal: bool, number: usize) -> VariableSymbol {
        let place = SourceLine { file: "src/a.c".into(), line: 3 };
        let (symbol, name) = (symbol.to_owned(), name.to_owned());
        VariableSymbol { symbol, name, internal, place, bytes: Some(8), number }
    }

    fn variable(name: &str, file: &str, len: u64) -> Variable {
        Variable { name: name.into(), file: file.into(), address: 0, len }
    }

    #[test]
    fn a_variable_is_found_by_its_symbol_or_by_the_name_in_its_file() {
        let all = [
            symbol("grid", "grid", false, 0),
            symbol("step", "step", true, 1),
            symbol("main.sum", "sum", true, 2),
            symbol("f.sum", "sum", true, 3),
        ];
        let found = |of: &Variable, others: &[Variable]| -> Vec<usize> {
            matching(&all, of, others).iter().map(|of| of.number).collect()
        };
        let alone = |of: Variable| found(&of, std::slice::from_ref(&of));
        assert_eq!(alone(variable("grid", "", 8)), [0]);
        assert_eq!(alone(variable("grid", "", 16)), [0usize; 0], "another size");
        assert_eq!(alone(variable("grid", "a.c", 8)), [0usize; 0], "another that is local");
        assert_eq!(alone(variable("step", "a.c", 8)), [1]);
        assert_eq!(alone(variable("step", "b.c", 8)), [0usize; 0]);
        assert_eq!(alone(variable("main.sum", "a.c", 8)), [2]);
        let two = [variable("sum.0", "a.c", 8), variable("sum.1", "a.c", 8)];
        assert_eq!((found(&two[0], &two), found(&two[1], &two)), (vec![2, 3], vec![2, 3]));
        let three = [two.as_slice(), &[variable("sum.7", "a.c", 8)]].concat();
        assert_eq!(found(&three[0], &three), [0usize; 0], "one that the source does not have");
    }
}
