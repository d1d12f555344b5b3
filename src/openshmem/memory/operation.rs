//! Remote operations as data: the call, the kind, the place on a PE, the payload.
//!
//! A call of the program describes its operation and passes it to the dispatch (`issue.rs`), which
//! alone knows how operations of this job are executed.
//!
//! Invariants: the place of an operation is checked, and so are the sizes at both ends. A transfer
//! moves at least one byte. The caller guarantees its own buffer, as the specification says, until
//! the operation is complete.
//!
//! Left out: the execution (`direct.rs`, `logged.rs`).

use raidshmem_core::update::{Change, Update};
use raidshmem_runtime::pgas::stream::Target;
use raidshmem_runtime::pgas::{self, World};

use super::address::{In, Out, Sym, SymIn};
use super::place::SegmentRange;
use super::strides::Strides;
use super::word::Word;
use crate::openshmem::check::{self, misuse};

/// A remote operation that is not executed yet.
#[derive(Clone, Copy)]
pub struct Operation {
    /// The routine, for messages and logs.
    pub call: &'static str,
    /// The kind, the place and the payload.
    pub kind: OperationKind,
    /// True if a substitute repeats its result (`prelude.rs`).
    pub recorded: bool,
}

/// The kind of an operation, with its place and its payload.
#[derive(Clone, Copy)]
pub enum OperationKind {
    /// Copies blocks of the caller's buffer to a PE.
    Put { to: SegmentRange, source: In<u8>, by: Strides },
    /// Copies blocks of a PE to the caller's buffer.
    Get { from: SegmentRange, dest: Out<u8>, by: Strides },
    /// Changes or reads a word atomically.
    Update { word: Word, change: Change, previous: PreviousValue },
    /// Reads a word of this PE that other PEs change, whatever the state of the job.
    Look { word: Word },
}

/// The destination of the value that an update finds.
#[derive(Clone, Copy)]
pub enum PreviousValue {
    /// The caller does not need it, nor waits for the update.
    Unused,
    /// It is the result of the call.
    Returned,
    /// It is written here by the next quiet of the stream, unless this is null.
    Later(Out<u8>),
}

/// Rejects a null buffer of the caller, with checks on.
#[inline]
fn check_buffer(call: &'static str, name: &str, addr: usize, world: &World) {
    if addr == 0 && world.checks() {
        misuse(call, format_args!("{name} is NULL"));
    }
}

// Inlined, so that the kind is a constant where an operation is executed, and its parts stay in
// registers.
impl Operation {
    #[inline(always)]
    fn recorded(call: &'static str, kind: OperationKind) -> Operation {
        Operation { call, kind, recorded: true }
    }

    /// Returns the operation without a part in the results that a substitute repeats: the call has
    /// a result of its own there, or the library needs the operation.
    #[inline(always)]
    pub fn unrecorded(self) -> Operation {
        Operation { recorded: false, ..self }
    }

    /// Returns a put of blocks of the caller's buffer; None if it moves nothing.
    #[inline(always)]
    pub fn put(
        call: &'static str,
        dest: Sym<u8>,
        source: In<u8>,
        by: Strides,
        pe: impl Into<Target>,
    ) -> Option<Operation> {
        let pe = pe.into();
        if by.bytes() == 0 {
            check::pe(call, pgas::world_for(call), pe.pe);
            return None;
        }
        let to = SegmentRange::new(call, "dest", dest, by.extent(call, by.dest_bytes), pe);
        by.extent(call, by.source_bytes);
        check_buffer(call, "source", source.addr(), to.world);
        Some(Operation::recorded(call, OperationKind::Put { to, source, by }))
    }

    /// Returns a get of blocks to the caller's buffer; None if it moves nothing.
    #[inline(always)]
    pub fn get(
        call: &'static str,
        dest: Out<u8>,
        source: SymIn<u8>,
        by: Strides,
        pe: impl Into<Target>,
    ) -> Option<Operation> {
        let pe = pe.into();
        if by.bytes() == 0 {
            check::pe(call, pgas::world_for(call), pe.pe);
            return None;
        }
        let from = SegmentRange::source(call, source, by.extent(call, by.source_bytes), pe);
        by.extent(call, by.dest_bytes);
        check_buffer(call, "dest", dest.addr(), from.world);
        Some(Operation::recorded(call, OperationKind::Get { from, dest, by }))
    }

    /// Returns an atomic update of a word.
    #[inline(always)]
    pub fn update(
        call: &'static str,
        word: Word,
        (how, operand): (Update, u64),
        previous: PreviousValue,
    ) -> Operation {
        let change = Change { how, operand };
        Operation::recorded(call, OperationKind::Update { word, change, previous })
    }

    /// Returns a look at a word of this PE.
    #[inline(always)]
    pub fn look(call: &'static str, word: Word) -> Operation {
        Operation::recorded(call, OperationKind::Look { word }).unrecorded()
    }

    /// Returns the place of the operation.
    #[inline(always)]
    pub fn place(&self) -> SegmentRange {
        match self.kind {
            OperationKind::Put { to, .. } => to,
            OperationKind::Get { from, .. } => from,
            OperationKind::Update { word, .. } | OperationKind::Look { word } => word.place(),
        }
    }
}
