//! Programs of `program.rs` as LLVM IR.

use std::fmt::Write;

use crate::program::{ARRAYS, GLOBALS, Inst, Meet, Program, SCALARS, Value};

/// Returns the name of a global.
pub fn name(global: usize) -> String {
    format!("g{global}")
}

fn shown(value: Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Register(register) => format!("%r{register}"),
        Value::Global(global) => format!("@{}", name(global)),
        Value::Function(0) => "@main".to_owned(),
        Value::Function(at) => format!("@f{at}"),
    }
}

/// Returns the program as LLVM IR.
pub fn text(program: &Program) -> String {
    let mut text = String::new();
    for global in 0..GLOBALS {
        let is = match global {
            _ if global < SCALARS => "i64 0",
            _ if global < SCALARS + ARRAYS => "[4 x i64] zeroinitializer",
            _ => "ptr null",
        };
        let _ = writeln!(text, "@{} = global {is}, align 8", name(global));
    }
    for (at, function) in program.functions.iter().enumerate() {
        let _ = writeln!(
            text,
            "define internal ptr {}(ptr %r0) nounwind {{",
            shown(Value::Function(at))
        );
        for (number, block) in function.blocks.iter().enumerate() {
            let _ = writeln!(text, "b{number}:");
            block.iter().for_each(|inst| print(&mut text, inst));
        }
        text.push_str("}\n");
    }
    text.push_str("!1 = !DIFile(filename: \"r.c\", directory: \"/\")\n");
    text.push_str("!2 = distinct !DISubprogram(name: \"r\", scope: !1, file: !1, line: 1)\n");
    for line in 1..=program.lines {
        let _ = writeln!(text, "!{} = !DILocation(line: {line}, column: 1, scope: !2)", line + 2);
    }
    text
}

fn transfer(name: &str, (to, from): (Value, Value), pe: usize, nbi: bool) -> String {
    let (nbi, to, from) = (if nbi { "_nbi" } else { "" }, shown(to), shown(from));
    format!("call void @shmem_{name}{nbi}(ptr {to}, ptr {from}, i64 8, i32 {pe})")
}

const ELEMENT: &str = "getelementptr inbounds [4 x i64]";

fn print(text: &mut String, inst: &Inst) {
    let s = shown;
    let line = match inst {
        Inst::Alloca { to, cells: 1 } => format!("%r{to} = alloca i64, align 8"),
        Inst::Alloca { to, .. } => format!("%r{to} = alloca [4 x i64], align 8"),
        Inst::Load { to, from } => format!("%r{to} = load i64, ptr {}, align 8", s(*from)),
        Inst::Store { value, to } => {
            let of = if matches!(value, Value::Number(_)) { "i64" } else { "ptr" };
            format!("store {of} {}, ptr {}, align 8", s(*value), s(*to))
        }
        Inst::Element { to, of, cell } => {
            format!("%r{to} = {ELEMENT}, ptr {}, i64 0, i64 {cell}", s(*of))
        }
        Inst::Call { to, callee, argument } => {
            format!("%r{to} = call ptr {}(ptr noundef {})", s(*callee), s(*argument))
        }
        Inst::At { to, of, cell } => {
            format!("%r{to} = {ELEMENT}, ptr {}, i64 0, i64 %r{cell}", s(*of))
        }
        Inst::Less { to, of, than } => format!("%r{to} = icmp slt i64 %r{of}, {than}"),
        Inst::Next { to, of, by } => format!("%r{to} = add nsw i64 %r{of}, {by}"),
        Inst::Odd { to, of } => format!("%r{to} = trunc i64 {} to i1", s(*of)),
        Inst::MyPe { to } => format!("%r{to} = call i32 @shmem_my_pe()"),
        Inst::Pointer { to, of, pe } => {
            format!("%r{to} = call ptr @shmem_ptr(ptr noundef {}, i32 noundef {pe})", s(*of))
        }
        Inst::Put { to, from, pe, nbi } => transfer("putmem", (*to, *from), *pe, *nbi),
        Inst::Get { to, from, pe, nbi } => transfer("getmem", (*to, *from), *pe, *nbi),
        Inst::Add { at, pe } => {
            format!("call void @shmem_long_atomic_add(ptr {}, i64 1, i32 {pe})", s(*at))
        }
        Inst::Quiet => "call void @shmem_quiet()".to_owned(),
        Inst::Fill { to } => {
            format!("call void @llvm.memset.p0.i64(ptr {}, i8 0, i64 32, i1 false)", s(*to))
        }
        Inst::Copy { to, from } => format!(
            "call void @llvm.memcpy.p0.p0.i64(ptr {}, ptr {}, i64 32, i1 false)",
            s(*to),
            s(*from)
        ),
        Inst::Meet { what, to, argument, line } => {
            let call = match what {
                Meet::Barrier => "call void @shmem_barrier_all()".to_owned(),
                Meet::Sync => "call void @shmem_sync_all()".to_owned(),
                Meet::Checkpoint => format!("%r{to} = call i32 @shmem_checkpoint_all()"),
                Meet::Restart => "call void @shmem_restart_pes(ptr null, i64 0)".to_owned(),
                Meet::Malloc => format!("%r{to} = call ptr @shmem_malloc(i64 32)"),
                Meet::Free => format!("call void @shmem_free(ptr {})", s(*argument)),
            };
            format!("{call}, !dbg !{}", line + 2)
        }
        Inst::Jump(to) => format!("br label %b{to}"),
        Inst::Branch { on, yes, no } => format!("br i1 %r{on}, label %b{yes}, label %b{no}"),
        Inst::Return(value) => format!("ret ptr {}", s(*value)),
    };
    let _ = writeln!(text, "  {line}");
}
