//! What clang printed of two small programs, read: `ll/counter.c` and `ll/caught.cc`.
//!
//! The texts are committed, so nothing here needs clang. They are made by
//! `clang-19 -g -O0 -Xclang -disable-O0-optnone -S -emit-llvm -I include -fdebug-compilation-dir=.`

use raidshmem_advise::ir::{Callee, Function, Global, Inst, Module, Op, Operand};
use raidshmem_advise::read::{Error, module};

const COUNTER: &str = include_str!("ll/counter.ll");
const CAUGHT: &str = include_str!("ll/caught.ll");

fn read(text: &str) -> Module {
    module(text).unwrap_or_else(|error| panic!("{error}"))
}

fn function<'m>(module: &'m Module, name: &str) -> &'m Function {
    let found = module.functions.iter().find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("no function {name}"))
}

fn global<'m>(module: &'m Module, name: &str) -> &'m Global {
    let found = module.globals.iter().find(|global| global.name == name);
    found.unwrap_or_else(|| panic!("no global {name}"))
}

fn insts(function: &Function) -> impl Iterator<Item = &Inst> {
    function.blocks.iter().flat_map(|block| &block.insts)
}

/// The line of the source on which `wanted` stands first.
fn line(source: &str, wanted: &str) -> u32 {
    let at = source.lines().position(|line| line.contains(wanted));
    at.unwrap_or_else(|| panic!("no line has {wanted}")) as u32 + 1
}

#[test]
fn globals_have_their_names_bytes_and_what_they_point_to() {
    let module = read(COUNTER);
    let sum = global(&module, "sum");
    assert_eq!((sum.bytes, sum.internal, sum.external), (Some(64), true, false));
    let declared = sum.variable.as_ref().expect("debug information");
    let source = include_str!("ll/counter.c");
    assert_eq!((declared.name.as_str(), declared.place.file.as_str()), ("sum", "counter.c"));
    assert_eq!(declared.place.line, line(source, "static long sum"));
    assert_eq!(global(&module, "pair").bytes, Some(24));
    let table = global(&module, "table");
    assert_eq!((table.bytes, table.internal), (Some(16), false));
    assert_eq!(table.holds, ["sum", "sum"]);
    let depth = read(CAUGHT);
    assert!(global(&depth, "depth").thread_local);
}

#[test]
fn the_loop_counter_is_an_alloca_with_its_name_and_line() {
    let module = read(COUNTER);
    let main = function(&module, "main");
    let source = include_str!("ll/counter.c");
    let (local, i) = main.variables.iter().find(|(_, v)| v.name == "i").expect("i");
    assert_eq!(i.place.line, line(source, "for (int i"));
    let made = insts(main).find(|inst| inst.result == Some(*local)).expect("its alloca");
    assert_eq!(made.op, Op::Alloca { bytes: Some(4) });
    let stores = insts(main).filter(|inst| {
        matches!(&inst.op, Op::Store { to: Operand::Local(to), bytes: Some(4), .. } if to == local)
    });
    assert_eq!(stores.count(), 2, "int i = 0, i++");
    assert_eq!(function(&module, "step").parameters, 2);
}

#[test]
fn calls_by_name_through_a_pointer_and_assembly() {
    let module = read(COUNTER);
    let main = function(&module, "main");
    let source = include_str!("ll/counter.c");
    let calls: Vec<_> = insts(main)
        .filter_map(|inst| match &inst.op {
            Op::Call { callee, args, .. } => Some((callee, args, inst.place.line)),
            _ => None,
        })
        .collect();
    let named = |name: &str| {
        let is = |call: &&(&Callee, _, _)| *call.0 == Callee::Named(name.into());
        *calls.iter().find(is).unwrap_or_else(|| panic!("no call of {name}"))
    };
    assert_eq!(named("shmem_checkpoint_all").2, line(source, "shmem_checkpoint_all"));
    assert_eq!(*named("shmem_malloc").1, [Operand::Number(800)]);
    let through = calls.iter().find(|call| matches!(call.0, Callee::Through(Operand::Local(_))));
    assert_eq!(through.expect("call(heap, i)").1.len(), 2);
    assert!(calls.iter().any(|call| *call.0 == Callee::Assembly));
    assert!(insts(main).any(|inst| matches!(&inst.op, Op::Update { at: Operand::Global(sum), .. }
        if sum == "sum")));
    // switch (i): two cases and the way past them.
    assert!(main.blocks.iter().any(|block| block.successors.len() == 3));
}

#[test]
fn a_call_inside_try_may_go_on_at_its_landing_pad() {
    let module = read(CAUGHT);
    let main = function(&module, "main");
    let is = |inst: &Inst| {
        let checkpoint = Callee::Named("shmem_checkpoint_all".into());
        matches!(&inst.op, Op::Call { callee, unwinds: true, .. } if *callee == checkpoint)
    };
    let block = main.blocks.iter().find(|block| block.insts.iter().any(is)).expect("the invoke");
    assert_eq!(block.successors.len(), 2);
    let pad = &main.blocks[block.successors[1]];
    assert_eq!(pad.insts.first().map(|inst| &inst.op), Some(&Op::Caught));
    assert!(function(&read(COUNTER), "step").nounwind);
    assert!(!main.nounwind, "an exception may leave it");
}

/// A checkpoint call inside try, by the macro of the header.
const PLACED: &str = "define i32 @main() personality ptr @p {
  %1 = alloca ptr
  %2 = load ptr, ptr %1
  %3 = invoke ptr @shmemx_ft_place(ptr @.file, i32 3, i32 0, ptr @.name, ptr ROUTINE)
          to label %4 unwind label %6

4:
  %5 = invoke i32 %3()
          to label %8 unwind label %6

6:
  %7 = landingpad { ptr, i32 }
          cleanup
  ret i32 0

8:
  ret i32 %5
}
";

/// The macro of the header hands the routine to one that gives it back.
#[test]
fn a_checkpoint_that_says_its_place_is_called_by_name() {
    let program = |routine: &str| PLACED.replace("ROUTINE", routine);
    let calls = |text: &str| {
        let module = read(text);
        let calls = insts(function(&module, "main")).filter_map(|inst| match &inst.op {
            Op::Call { callee, unwinds, .. } => Some((callee.clone(), *unwinds)),
            _ => None,
        });
        calls.collect::<Vec<_>>()
    };
    let named = Callee::Named("shmem_checkpoint_all".into());
    assert_eq!(calls(&program("@shmem_checkpoint_all")), [(named, true)]);
    let through = calls(&program("%2"));
    assert!(matches!(&through[..], [(Callee::Through(Operand::Local(_)), true)]), "{through:?}");
}

#[test]
fn what_is_not_known_is_refused_with_its_line() {
    let wrong = |text: &str| module(text).expect_err("refused").to_string();
    let body = |line: &str| format!("define void @f() {{\n  {line}\n}}\n");
    assert_eq!(
        wrong(&body("%1 = frobnicate i32 1")),
        "line 2: expected a known instruction of LLVM IR"
    );
    assert_eq!(wrong(&body("br label %nowhere")), "line 2: no block nowhere in this function");
    assert_eq!(
        wrong(&body("%1 = load i32, i32* %0")),
        "line 2: pointers with types; expected IR of clang 15 or newer"
    );
    assert_eq!(module("define void @f() {\n").expect_err("open"), Error::Open { line: 1 });
    assert_eq!(wrong("int main;\n"), "line 1: expected a definition of LLVM IR");
}

#[test]
fn damaged_text_is_read_or_refused() {
    let (mut read, mut refused) = (0_u32, 0_u32);
    let mut state = 1_u64;
    for text in [COUNTER, CAUGHT] {
        for cut in (0..text.len()).step_by(131) {
            let mut bytes = text.as_bytes().to_vec();
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes[cut] = b"()[]{}<>,=%@!\"* 0x\n"[(state >> 33) as usize % 19];
            let cut_off = &text[..cut];
            for damaged in [cut_off, &String::from_utf8(bytes).expect("ASCII")] {
                match module(damaged) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}
