//! The identity of a program's build, and the location of its variables.
//!
//! Invariant: two executables with equal build identifiers are the same file, as far as the
//! linker's build id or the file's length and checksum can tell.

use std::ops::Range;

use object::elf::ProgramHeader64;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _, SymbolKind};
use raidshmem_codec::crc::crc32;

/// An executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its build id; if it has none, its length and its checksum.
    pub build: Vec<u8>,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// Its program headers.
    pub segments: Vec<Segment>,
    /// Its entry address in the file.
    pub entry: u64,
}

impl Program {
    /// Returns its addresses in a process that began to run at `entry`.
    #[must_use]
    pub fn image(&self, entry: u64) -> Range<u64> {
        let bias = entry.wrapping_sub(self.entry);
        let loads = self.segments.iter().filter(|it| it.kind == object::elf::PT_LOAD);
        let at = |it: &Segment| it.address.wrapping_add(bias);
        let start = loads.clone().map(at).min().unwrap_or(0);
        start..loads.map(|it| at(it).saturating_add(it.len)).max().unwrap_or(start)
    }
}

/// A program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// Address in the file.
    pub address: u64,
    /// Bytes in memory.
    pub len: u64,
}

/// A variable of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The symbol.
    pub name: String,
    /// The source file of a local symbol; else empty.
    pub file: String,
    /// Address in the file.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// Reads an executable. If it cannot be parsed, only its build identifier is set.
pub fn read(bytes: &[u8]) -> Program {
    let elf = ElfFile64::<LittleEndian>::parse(bytes).ok();
    let id = elf.as_ref().and_then(|elf| elf.build_id().ok().flatten());
    let build = id.map_or_else(|| by_contents(bytes), <[u8]>::to_vec);
    let (mut variables, mut file) = (Vec::new(), String::new());
    for symbol in elf.iter().flat_map(|elf| elf.symbols()) {
        let name = symbol.name().unwrap_or_default().to_owned();
        match symbol.kind() {
            SymbolKind::File => file = name,
            SymbolKind::Data if symbol.is_definition() && symbol.size() > 0 => {
                let file = if symbol.is_local() { file.clone() } else { String::new() };
                let (address, len) = (symbol.address(), symbol.size());
                variables.push(Variable { name, file, address, len });
            }
            _ => {}
        }
    }
    let segment = |it: &ProgramHeader64<LittleEndian>| Segment {
        kind: it.p_type(LittleEndian),
        flags: it.p_flags(LittleEndian),
        address: it.p_vaddr(LittleEndian),
        len: it.p_memsz(LittleEndian),
    };
    let segments = elf.iter().flat_map(|elf| elf.elf_program_headers()).map(segment).collect();
    let entry = elf.as_ref().map_or(0, |elf| elf.entry());
    Program { build, variables, segments, entry }
}

/// Formats a build identifier for display.
#[must_use]
pub fn digits(build: &[u8]) -> String {
    build.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the build identifier of an executable without a build id.
fn by_contents(bytes: &[u8]) -> Vec<u8> {
    let len = (bytes.len() as u64).to_le_bytes();
    [len.as_slice(), &crc32(bytes).to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn this_program_has_variables_and_other_bytes_a_name() {
        static COUNTED: [AtomicU64; 5] = [const { AtomicU64::new(7) }; 5];
        let path = std::env::current_exe().expect("a program");
        let bytes = std::fs::read(path).expect("its bytes");
        assert_eq!(COUNTED[4].fetch_add(1, Ordering::Relaxed), 7, "it is there");
        let program = read(&bytes);
        assert!(program.variables.iter().any(|it| it.name.contains("COUNTED") && it.len == 40));
        let image = program.image(program.entry + (1 << 40));
        let counted = program.variables.iter().find(|it| it.name.contains("COUNTED"));
        let address = counted.map(|it| it.address).expect("as above") + (1 << 40);
        assert!(image.contains(&address) && image.contains(&(program.entry + (1 << 40))));
        let (one, other) = (read(b"#!/bin/sh"), read(b"#!/bin/ksh"));
        assert!(one.variables.is_empty() && one.build != other.build);
        for cut in (0..bytes.len()).step_by(bytes.len() / 50 + 1) {
            read(&bytes[..cut]);
        }
    }
}
