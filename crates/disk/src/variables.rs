//! The variables of a program, by their location in its symmetric statics.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::path::Path;

use raidshmem_archive::part::Object;
use raidshmem_archive::program::{Program, Segment, Variable};
use raidshmem_segment::statics::elf::{Executable, ProgramHeader};
use raidshmem_segment::statics::select;
use raidshmem_sys::memory::page_size;

/// The description of a program that is saved in a file.
#[derive(Debug, Clone, Default)]
pub struct SavedProgram {
    /// The build identifier.
    pub build: Vec<u8>,
    /// The name of its executable.
    pub name: String,
    /// The addresses of the executable in the process.
    pub image: Range<u64>,
    /// Its variables.
    pub objects: Vec<Object>,
}

/// Returns the name of the executable that a link of a process points to.
pub fn name_of(link: &Path) -> String {
    let path = std::fs::read_link(link).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

/// Returns the entry address of a process, as reported by the kernel (`auxv`).
pub fn entry_of(auxv: &[u8]) -> Option<u64> {
    let mut pairs = auxv.as_chunks::<16>().0.iter().map(|pair| u128::from_le_bytes(*pair));
    let entry = pairs.find(|pair| *pair as u64 == libc::AT_ENTRY);
    entry.map(|pair| (pair >> 64) as u64)
}

/// Returns the variables that lie wholly in the statics.
pub fn objects(program: &Program) -> Vec<Object> {
    let header = |it: &Segment| {
        let (address, len) = (it.address as usize, it.len as usize);
        ProgramHeader { kind: it.kind, flags: it.flags, address, len }
    };
    let headers: Vec<ProgramHeader> = program.segments.iter().map(header).collect();
    let Some(statics) = select(&Executable::new(&headers, Vec::new()), page_size()) else {
        return Vec::new();
    };
    let object = |it: &Variable| {
        let offset = statics.offset_of(it.address as usize, it.len as usize)? as u64;
        let (name, file) = (it.name.clone(), it.file.clone());
        Some(Object { name, file, offset, len: it.len })
    };
    program.variables.iter().filter_map(object).collect()
}
