//! The parts of a dynamically linked ELF executable that say what its statics are.
//!
//! Reads through [`Memory`], so that the running executable and a file are the same to it. 64-bit
//! little-endian ELF with `RELA` relocations, which is all that x86-64 and aarch64 Linux have
//! (System V ABI, "Program Loading and Dynamic Linking", and the two processor supplements).
//!
//! Invariants: nothing is read outside the executable's readable segments; no table contents make
//! this panic or loop; addresses are those in memory, that is, with the bias added.
//!
//! Left out: section headers (not in memory), `RELR` (relative relocations only: the program's own
//! addresses) and symbols by name.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::StaticsError;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_PLTRELSZ: u64 = 2;
const DT_PLTGOT: u64 = 3;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_RELAENT: u64 = 9;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_JMPREL: u64 = 23;

const WORD: usize = 8;
/// Bytes of an `Elf64_Dyn`: tag, value.
const DYN: usize = 2 * WORD;
/// Bytes of an `Elf64_Rela`: offset, info, addend.
const RELA: usize = 3 * WORD;
/// Bytes of an `Elf64_Sym`; the size is its last word.
const SYM: usize = 24;
const SYM_SIZE: usize = 16;
/// Words at the start of the lazily bound GOT that are the loader's (both processor supplements).
const GOT_RESERVED: usize = 3;

/// Memory of an executable.
pub trait Memory {
    /// A copy of `len` bytes; `None` unless all of them are inside one readable segment.
    fn read(&self, address: usize, len: usize) -> Option<Vec<u8>>;
}

/// A program header.
#[derive(Clone, Debug)]
pub struct Header {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// Where it is in memory.
    pub address: usize,
    /// How many bytes it takes there.
    pub len: usize,
}

impl Header {
    /// Its addresses.
    pub fn range(&self) -> Range<usize> {
        self.address..self.address.saturating_add(self.len)
    }

    /// True for a segment that is mapped and may be read.
    pub fn is_readable(&self) -> bool {
        self.kind == PT_LOAD && self.flags & PF_R != 0
    }
}

/// All that the choice of the statics depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executable {
    /// Writable segments, with what is read-only after start-up.
    pub writable: Vec<Range<usize>>,
    /// What is read-only after start-up.
    pub relro: Option<Range<usize>>,
    /// What the program does not own, in any order; may overlap, and lie outside the above.
    pub foreign: Vec<Range<usize>>,
}

impl Executable {
    /// From the program headers and the result of [`Dynamic::foreign`].
    pub fn new(headers: &[Header], foreign: Vec<Range<usize>>) -> Executable {
        let writable = |h: &&Header| h.kind == PT_LOAD && h.flags & PF_W != 0;
        Executable {
            writable: headers.iter().filter(writable).map(Header::range).collect(),
            relro: headers.iter().find(|h| h.kind == PT_GNU_RELRO).map(Header::range),
            foreign,
        }
    }
}

/// The processor, for the numbers of its relocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "a build is for one of the two, the tests are for both")]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// aarch64 (64-bit Arm).
    Aarch64,
}

/// What a relocation makes of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one instance of a library's variable; as long as the symbol is.
    Copied,
    /// Words that the loader or libc fills in, this many bytes.
    Filled(usize),
    /// The program's own data.
    Own,
}

impl Machine {
    /// The processor this runs on.
    #[cfg(target_arch = "x86_64")]
    pub const HERE: Machine = Machine::X86_64;
    /// The processor this runs on.
    #[cfg(target_arch = "aarch64")]
    pub const HERE: Machine = Machine::Aarch64;

    /// What a relocation of that number is for.
    pub fn target(self, relocation: u32) -> Target {
        match (self, relocation) {
            // R_X86_64_COPY, R_AARCH64_COPY
            (Machine::X86_64, 5) | (Machine::Aarch64, 1024) => Target::Copied,
            // GLOB_DAT, JUMP_SLOT, DTPMOD64, DTPOFF64, TPOFF64, IRELATIVE
            (Machine::X86_64, 6 | 7 | 16 | 17 | 18 | 37) => Target::Filled(WORD),
            // GLOB_DAT, JUMP_SLOT, TLS_DTPMOD, TLS_DTPREL, TLS_TPREL, IRELATIVE
            (Machine::Aarch64, 1025 | 1026 | 1028..=1030 | 1032) => Target::Filled(WORD),
            // TLSDESC is two words
            (Machine::X86_64, 36) | (Machine::Aarch64, 1031) => Target::Filled(2 * WORD),
            _ => Target::Own,
        }
    }
}

/// The dynamic section, and where it is from.
pub struct Dynamic<'a, M> {
    headers: &'a [Header],
    bias: usize,
    memory: &'a M,
    /// Addresses of the section itself.
    range: Range<usize>,
    /// Tags and values, up to the terminating one.
    entries: Vec<(u64, u64)>,
}

impl<'a, M: Memory> Dynamic<'a, M> {
    /// Reads the section; `None` for a static executable, which has none.
    ///
    /// # Errors
    /// The section is not inside the executable's segments.
    pub fn read(
        headers: &'a [Header],
        bias: usize,
        memory: &'a M,
    ) -> Result<Option<Dynamic<'a, M>>, StaticsError> {
        let Some(header) = headers.iter().find(|h| h.kind == PT_DYNAMIC) else { return Ok(None) };
        let bytes = read(memory, "dynamic section", header.address, header.len)?;
        let entries = bytes
            .chunks_exact(DYN)
            .map(|entry| (word(entry, 0), word(entry, WORD)))
            .take_while(|&(tag, _)| tag != DT_NULL)
            .collect();
        Ok(Some(Dynamic { headers, bias, memory, range: header.range(), entries }))
    }

    /// Names of the libraries that the executable itself asks for.
    ///
    /// # Errors
    /// The string table is missing or not inside the executable's segments.
    pub fn needed(&self) -> Result<Vec<String>, StaticsError> {
        let offsets: Vec<u64> =
            self.entries.iter().filter(|e| e.0 == DT_NEEDED).map(|e| e.1).collect();
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let strings = self.table("string table", DT_STRTAB, DT_STRSZ)?;
        let name = |offset: u64| {
            let rest = usize::try_from(offset).ok().and_then(|at| strings.get(at..))?;
            let name = rest.split(|&b| b == 0).next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let missing = StaticsError::Format { table: "string table" };
        offsets.into_iter().map(|offset| name(offset).ok_or(missing.clone())).collect()
    }

    /// Addresses of what the program does not own, in no order: copied variables, all words that
    /// the loader fills in, and this section.
    ///
    /// # Errors
    /// A table is missing, of an unknown format or not inside the executable's segments.
    pub fn foreign(&self, machine: Machine) -> Result<Vec<Range<usize>>, StaticsError> {
        let mut foreign = vec![self.range.clone()];
        if let Some(got) = self.value(DT_PLTGOT) {
            let start = self.address(got);
            foreign.push(start..start.saturating_add(GOT_RESERVED * WORD));
        }
        if self.value(DT_RELAENT).is_some_and(|size| size != RELA as u64) {
            return Err(StaticsError::Format { table: "relocations" });
        }
        let lists = [("relocations", DT_RELA, DT_RELASZ), ("GOT", DT_JMPREL, DT_PLTRELSZ)];
        for (name, address, len) in lists {
            if self.value(address).is_none() {
                continue;
            }
            for entry in self.table(name, address, len)?.chunks_exact(RELA) {
                let info = word(entry, WORD);
                let len = match machine.target(info as u32) {
                    Target::Own => continue,
                    Target::Filled(bytes) => bytes,
                    Target::Copied => self.symbol_size(info >> 32)?,
                };
                // An offset is one of the file, whatever the loader does to the section's values.
                let start = self.bias.wrapping_add(word(entry, 0) as usize);
                foreign.push(start..start.saturating_add(len));
            }
        }
        Ok(foreign)
    }

    /// Bytes of the dynamic symbol of that number.
    fn symbol_size(&self, number: u64) -> Result<usize, StaticsError> {
        let format = StaticsError::Format { table: "symbol table" };
        if self.value(DT_SYMENT).is_some_and(|size| size != SYM as u64) {
            return Err(format);
        }
        let table = self.address(self.value(DT_SYMTAB).ok_or(format)?);
        let at = table.saturating_add((number as usize).saturating_mul(SYM));
        let symbol = read(self.memory, "symbol table", at, SYM)?;
        Ok(word(&symbol, SYM_SIZE) as usize)
    }

    fn table(&self, name: &'static str, at: u64, len: u64) -> Result<Vec<u8>, StaticsError> {
        match (self.value(at), self.value(len)) {
            (Some(at), Some(len)) => read(self.memory, name, self.address(at), len as usize),
            _ => Err(StaticsError::Format { table: name }),
        }
    }

    fn value(&self, tag: u64) -> Option<u64> {
        self.entries.iter().find(|e| e.0 == tag).map(|e| e.1)
    }

    /// The address that a value of this section stands for. glibc adds the bias to the values in
    /// memory, musl leaves them; one that is inside a segment as it stands has it already, for an
    /// executable is never displaced by less than its own length.
    fn address(&self, value: u64) -> usize {
        let value = value as usize;
        let inside = |h: &Header| h.kind == PT_LOAD && h.range().contains(&value);
        if self.headers.iter().any(inside) { value } else { self.bias.wrapping_add(value) }
    }
}

fn read(
    memory: &impl Memory,
    table: &'static str,
    address: usize,
    len: usize,
) -> Result<Vec<u8>, StaticsError> {
    memory.read(address, len).ok_or(StaticsError::Outside { table, address, len })
}

/// The little-endian word at byte `at`; 0 past the end, where the format has no word.
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.copied().map_or(0, u64::from_le_bytes)
}
