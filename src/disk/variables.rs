//! The variables of a program, by where they lie in its symmetric statics.

#![forbid(unsafe_code)]

use raidshmem_archive::part::Object;
use raidshmem_archive::program::{Program, Segment, Variable};
use raidshmem_core::page::PAGE;
use raidshmem_segment::statics::elf::{Executable, ProgramHeader};
use raidshmem_segment::statics::select;

/// Those that lie there whole.
pub fn objects(program: Program) -> Vec<Object> {
    let header = |it: &Segment| {
        let (address, len) = (it.address as usize, it.len as usize);
        ProgramHeader { kind: it.kind, flags: it.flags, address, len }
    };
    let headers: Vec<ProgramHeader> = program.segments.iter().map(header).collect();
    let Ok(Some(statics)) = select(&Executable::new(&headers, Vec::new()), PAGE) else {
        return Vec::new();
    };
    let object = |it: Variable| {
        let offset = it.address.checked_sub(statics.start as u64)?;
        let inside = offset.checked_add(it.len).is_some_and(|end| end <= statics.len as u64);
        let Variable { name, file, len, .. } = it;
        inside.then_some(Object { name, file, offset, len })
    };
    program.variables.into_iter().filter_map(object).collect()
}
