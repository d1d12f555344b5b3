//! The parts of a dynamically linked ELF executable that determine its statics.
//!
//! Reads through [`ExecutableMemory`], so that it handles the running executable and a file alike.
//! 64-bit little-endian ELF with `RELA` relocations, the only form on x86-64 and aarch64 Linux
//! (System V ABI, "Program Loading and Dynamic Linking", and the two processor supplements). The
//! tables are those of the crate `object`, which itself reads files, not memory of a process.
//!
//! Invariants: nothing is read outside the executable's readable segments; no table contents make
//! this panic or loop; addresses are those in memory, that is, with the bias added.
//!
//! Left out: section headers (not in memory), `RELR` (relative relocations only: the program's own
//! addresses) and symbols by name.

#![forbid(unsafe_code)]

use std::ops::Range;

use object::LittleEndian as Little;
use object::elf::{self as abi, Dyn64, Rela64, Sym64};
use object::pod::{self, Pod};

use super::error::StaticsError;

const WORD: usize = 8;
const RELA: usize = size_of::<Rela64<Little>>();
const SYM: usize = size_of::<Sym64<Little>>();
/// Words at the start of the lazily bound GOT that are the loader's (both processor supplements).
const GOT_RESERVED: usize = 3;

/// Memory of an executable.
pub trait ExecutableMemory {
    /// Returns a copy of `len` bytes; `None` unless all of them are inside one readable segment.
    fn read(&self, address: usize, len: usize) -> Option<Vec<u8>>;
}

/// A program header.
#[derive(Clone, Debug)]
pub struct ProgramHeader {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// Address in memory.
    pub address: usize,
    /// Length in memory, in bytes.
    pub len: usize,
}

impl ProgramHeader {
    /// Returns its addresses.
    pub fn range(&self) -> Range<usize> {
        self.address..self.address.saturating_add(self.len)
    }

    /// Returns true for a segment that is mapped and readable.
    pub fn is_readable(&self) -> bool {
        self.kind == abi::PT_LOAD && self.flags & abi::PF_R != 0
    }
}

/// The inputs to the selection of the statics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executable {
    /// Writable segments, including memory that is read-only after start-up.
    pub writable: Vec<Range<usize>>,
    /// Segments that can be read and not written.
    pub readonly: Vec<Range<usize>>,
    /// Memory that is read-only after start-up.
    pub relro: Option<Range<usize>>,
    /// Memory that the program does not own, in any order; may overlap, and lie outside the above.
    pub foreign: Vec<Range<usize>>,
}

impl Executable {
    /// Combines the program headers and the result of [`Dynamic::foreign`].
    pub fn new(headers: &[ProgramHeader], foreign: Vec<Range<usize>>) -> Executable {
        let is_writable = |h: &ProgramHeader| h.flags & abi::PF_W != 0;
        let writable = headers.iter().filter(|h| h.kind == abi::PT_LOAD && is_writable(h));
        let readonly = headers.iter().filter(|h| h.is_readable() && !is_writable(h));
        Executable {
            writable: writable.map(ProgramHeader::range).collect(),
            readonly: readonly.map(ProgramHeader::range).collect(),
            relro: headers.iter().find(|h| h.kind == abi::PT_GNU_RELRO).map(ProgramHeader::range),
            foreign,
        }
    }
}

/// A processor, which determines the numbers of its relocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "a build is for one of the two, the tests are for both")]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// aarch64 (64-bit Arm).
    Aarch64,
}

/// The effect of a relocation on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocationKind {
    /// The only instance of a library's variable; as long as its symbol.
    Copied,
    /// Words that the loader or libc fills in; the length in bytes.
    Filled(usize),
    /// The program's own data.
    Own,
}

impl Machine {
    /// The processor that this build is for.
    #[cfg(target_arch = "x86_64")]
    pub const HERE: Machine = Machine::X86_64;
    /// The processor that this build is for.
    #[cfg(target_arch = "aarch64")]
    pub const HERE: Machine = Machine::Aarch64;

    /// Returns the kind of a relocation number.
    pub fn target(self, relocation: u32) -> RelocationKind {
        match (self, relocation) {
            (Machine::X86_64, abi::R_X86_64_COPY) | (Machine::Aarch64, abi::R_AARCH64_COPY) => {
                RelocationKind::Copied
            }
            (
                Machine::X86_64,
                abi::R_X86_64_GLOB_DAT
                | abi::R_X86_64_JUMP_SLOT
                | abi::R_X86_64_DTPMOD64
                | abi::R_X86_64_DTPOFF64
                | abi::R_X86_64_TPOFF64
                | abi::R_X86_64_IRELATIVE,
            ) => RelocationKind::Filled(WORD),
            (
                Machine::Aarch64,
                abi::R_AARCH64_GLOB_DAT
                | abi::R_AARCH64_JUMP_SLOT
                | abi::R_AARCH64_TLS_DTPMOD
                | abi::R_AARCH64_TLS_DTPREL
                | abi::R_AARCH64_TLS_TPREL
                | abi::R_AARCH64_IRELATIVE,
            ) => RelocationKind::Filled(WORD),
            (Machine::X86_64, abi::R_X86_64_TLSDESC)
            | (Machine::Aarch64, abi::R_AARCH64_TLSDESC) => RelocationKind::Filled(2 * WORD),
            _ => RelocationKind::Own,
        }
    }
}

/// The dynamic section, and the executable that it is from.
pub struct Dynamic<'a, M> {
    headers: &'a [ProgramHeader],
    bias: usize,
    memory: &'a M,
    /// Addresses of the section itself.
    range: Range<usize>,
    /// Tags and values, up to the terminating one.
    entries: Vec<Dyn64<Little>>,
}

impl<'a, M: ExecutableMemory> Dynamic<'a, M> {
    /// Reads the section; returns `None` for a static executable, which has none.
    ///
    /// # Errors
    /// The section is not inside the executable's segments.
    pub fn read(
        headers: &'a [ProgramHeader],
        bias: usize,
        memory: &'a M,
    ) -> Result<Option<Dynamic<'a, M>>, StaticsError> {
        let Some(header) = headers.iter().find(|h| h.kind == abi::PT_DYNAMIC) else {
            return Ok(None);
        };
        let bytes = read(memory, "dynamic section", header.address, header.len)?;
        let entries = rows::<Dyn64<Little>>(&bytes);
        let entries = entries.into_iter().take_while(|entry| tag(entry) != abi::DT_NULL).collect();
        Ok(Some(Dynamic { headers, bias, memory, range: header.range(), entries }))
    }

    /// Returns the names of the libraries that the executable itself asks for.
    ///
    /// # Errors
    /// The string table is missing or not inside the executable's segments.
    pub fn needed(&self) -> Result<Vec<String>, StaticsError> {
        let needed = self.entries.iter().filter(|entry| tag(entry) == abi::DT_NEEDED);
        let offsets: Vec<u64> = needed.map(|entry| entry.d_val.get(Little)).collect();
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let strings = self.table("string table", abi::DT_STRTAB, abi::DT_STRSZ)?;
        let name = |offset: u64| {
            let rest = usize::try_from(offset).ok().and_then(|at| strings.get(at..))?;
            let name = rest.split(|&b| b == 0).next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let missing = StaticsError::Format { table: "string table" };
        offsets.into_iter().map(|offset| name(offset).ok_or(missing.clone())).collect()
    }

    /// Returns the addresses that the program does not own, in any order: copied variables, all
    /// words that the loader fills in, and this section.
    ///
    /// # Errors
    /// A table is missing, of an unknown format or not inside the executable's segments.
    pub fn foreign(&self, machine: Machine) -> Result<Vec<Range<usize>>, StaticsError> {
        let mut foreign = vec![self.range.clone()];
        if let Some(got) = self.value(abi::DT_PLTGOT) {
            let start = self.address(got);
            foreign.push(start..start.saturating_add(GOT_RESERVED * WORD));
        }
        if self.value(abi::DT_RELAENT).is_some_and(|size| size != RELA as u64) {
            return Err(StaticsError::Format { table: "relocations" });
        }
        let lists = [
            ("relocations", abi::DT_RELA, abi::DT_RELASZ),
            ("GOT", abi::DT_JMPREL, abi::DT_PLTRELSZ),
        ];
        for (name, address, len) in lists {
            if self.value(address).is_none() {
                continue;
            }
            for entry in rows::<Rela64<Little>>(&self.table(name, address, len)?) {
                let len = match machine.target(entry.r_type(Little, false)) {
                    RelocationKind::Own => continue,
                    RelocationKind::Filled(bytes) => bytes,
                    RelocationKind::Copied => self.symbol_size(entry.r_sym(Little, false))?,
                };
                // Offsets are those of the file, whatever the loader does to the section's values.
                let start = self.bias.wrapping_add(entry.r_offset.get(Little) as usize);
                foreign.push(start..start.saturating_add(len));
            }
        }
        Ok(foreign)
    }

    /// Returns the size in bytes of a dynamic symbol.
    fn symbol_size(&self, number: u32) -> Result<usize, StaticsError> {
        let format = StaticsError::Format { table: "symbol table" };
        if self.value(abi::DT_SYMENT).is_some_and(|size| size != SYM as u64) {
            return Err(format);
        }
        let table = self.address(self.value(abi::DT_SYMTAB).ok_or(format.clone())?);
        let at = table.saturating_add((number as usize).saturating_mul(SYM));
        let symbol = rows::<Sym64<Little>>(&read(self.memory, "symbol table", at, SYM)?);
        symbol.first().map(|symbol| symbol.st_size.get(Little) as usize).ok_or(format)
    }

    fn table(&self, name: &'static str, at: u32, len: u32) -> Result<Vec<u8>, StaticsError> {
        match (self.value(at), self.value(len)) {
            (Some(at), Some(len)) => read(self.memory, name, self.address(at), len as usize),
            _ => Err(StaticsError::Format { table: name }),
        }
    }

    fn value(&self, wanted: u32) -> Option<u64> {
        let entry = self.entries.iter().find(|entry| tag(entry) == wanted)?;
        Some(entry.d_val.get(Little))
    }

    /// Converts a value of this section to an address. glibc adds the bias to the values in memory,
    /// musl does not; a value inside a segment already includes it, because an executable is never
    /// displaced by less than its own length.
    fn address(&self, value: u64) -> usize {
        let value = value as usize;
        let inside = |h: &ProgramHeader| h.kind == abi::PT_LOAD && h.range().contains(&value);
        if self.headers.iter().any(inside) { value } else { self.bias.wrapping_add(value) }
    }
}

fn read(
    memory: &impl ExecutableMemory,
    table: &'static str,
    address: usize,
    len: usize,
) -> Result<Vec<u8>, StaticsError> {
    memory.read(address, len).ok_or(StaticsError::Outside { table, address, len })
}

/// Returns the tag of an entry, or an unused one if the format does not define it.
fn tag(entry: &Dyn64<Little>) -> u32 {
    u32::try_from(entry.d_tag.get(Little)).unwrap_or(u32::MAX)
}

/// Returns the rows of a table; an incomplete last row is dropped.
fn rows<T: Pod>(bytes: &[u8]) -> Vec<T> {
    let rows = pod::slice_from_bytes(bytes, bytes.len() / size_of::<T>());
    rows.map_or_else(|()| Vec::new(), |(rows, _)| rows.to_vec())
}
