//! One function: its head, and its body split into blocks.

use std::collections::HashMap;

use super::context::{Error, ModuleContext};
use super::exact::{exact, joined};
use super::instruction::instruction;
use super::operand::Locals;
use crate::ir::{Block, Callee, Exact, Function, Inst, Op, Operand};
use crate::lex::{Line, Token, closing, parts, tokens};

/// A block whose successors are still names.
#[derive(Default)]
struct Draft<'a> {
    block: Block,
    labels: Vec<(usize, &'a str)>,
    /// By instruction: its values by block.
    joined: Vec<(usize, Vec<(&'a str, Operand)>)>,
}

/// Reads `define .. @name(PARAMETERS) ..` and the lines of its body.
pub(super) fn function<'a>(
    number: usize,
    head: &'a str,
    body: Vec<Line<'a>>,
    context: &ModuleContext<'a>,
) -> Result<Function, Error> {
    let mut locals = Locals::default();
    let head = tokens(head);
    let mut read = signature(number, &head, &mut locals, context)?;
    let (mut drafts, mut numbers) = (vec![Draft::default()], HashMap::new());
    for line in &body {
        if let [Token::Word(label) | Token::Text(label), Token::Mark(':'), ..] = line.tokens[..] {
            // The entry may have a name; only that block may still be empty.
            if !drafts[drafts.len() - 1].block.insts.is_empty() {
                drafts.push(Draft::default());
            }
            numbers.insert(label, drafts.len() - 1);
        } else if let [Token::Hash(record), rest @ ..] = &line.tokens[..] {
            if *record == "dbg_declare" {
                declare(rest, &mut locals, &mut read, context);
            }
        } else {
            let draft = drafts.last_mut().expect("the entry is there from the start");
            inst(line, draft, &mut locals, &mut read, context)?;
        }
    }
    read.locals = locals.count();
    for Draft { mut block, labels, joined } in drafts {
        for (at, values) in joined {
            // Only the entry may lack a label.
            let number = |name| numbers.get(name).copied().unwrap_or_default();
            let values = values.into_iter().map(|(name, of)| (number(name), of));
            block.insts[at].exact = Exact::Joined(values.collect());
        }
        for (line, label) in labels {
            let found = numbers.get(label).copied();
            let missing = || Error::NoBlock { line, label: label.escape_debug().to_string() };
            block.successors.push(found.ok_or_else(missing)?);
        }
        read.blocks.push(block);
    }
    name_checkpoints(&mut read.blocks);
    Ok(read)
}

/// Resolves checkpoint calls. The macro of a checkpoint passes its routine through one that records
/// the place and returns it: `shmemx_ft_place(.., shmem_checkpoint_all)()`. This is a call by name.
fn name_checkpoints(blocks: &mut [Block]) {
    let mut given = HashMap::new();
    for inst in blocks.iter_mut().flat_map(|block| &mut block.insts) {
        match &mut inst.op {
            Op::Call { callee: Callee::Named(name), args, .. } if name == "shmemx_ft_place" => {
                let routine = args.pop().unwrap_or(Operand::Nothing);
                given.extend(inst.result.zip(Some(routine.clone())));
                inst.op = Op::Copy(vec![routine]);
            }
            Op::Call { callee: callee @ Callee::Through(_), .. } => {
                if let Callee::Through(Operand::Local(local)) = callee
                    && let Some(Operand::Global(name)) = given.get(local)
                {
                    *callee = Callee::Named(name.clone());
                }
            }
            _ => {}
        }
    }
}

fn signature<'a>(
    number: usize,
    head: &[Token<'a>],
    locals: &mut Locals<'a>,
    context: &ModuleContext<'a>,
) -> Result<Function, Error> {
    let wrong = Error::Expected { line: number, expected: "the head of a function" };
    let name = head.windows(2).enumerate().find_map(|(at, pair)| match pair {
        [Token::Global(name), Token::Mark('(')] => Some((at, *name)),
        _ => None,
    });
    let (at, name) = name.ok_or(wrong.clone())?;
    let end = closing(head, at + 1).ok_or(wrong)?;
    if head.contains(&Token::Mark('*')) {
        return Err(Error::TypedPointer { line: number });
    }
    let parameters = parts(&head[at + 2..end]);
    for part in &parameters {
        if let Some(Token::Local(name)) = part.last() {
            locals.number(name);
        }
    }
    let groups =
        |token: &Token<'_>| matches!(token, Token::Hash(g) if context.nounwind.contains(g));
    let nounwind = head[end..].contains(&Token::Word("nounwind")) || head[end..].iter().any(groups);
    let internal = [Token::Word("internal"), Token::Word("private")];
    Ok(Function {
        name: name.to_owned(),
        internal: head[..at].iter().any(|token| internal.contains(token)),
        nounwind,
        parameters: locals.count(),
        place: location(head).map(|node| context.debug.place(node)).unwrap_or_default(),
        ..Function::default()
    })
}

/// Returns the node after `!dbg`.
fn location<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    tokens.windows(2).rev().find_map(|pair| match pair {
        [Token::Meta("dbg"), Token::Meta(node)] => Some(*node),
        _ => None,
    })
}

/// Reads `(ptr %x, !VARIABLE, ..)`: the variable in an alloca.
fn declare<'a>(
    tokens: &[Token<'a>],
    locals: &mut Locals<'a>,
    read: &mut Function,
    context: &ModuleContext<'a>,
) {
    let local = tokens.iter().find_map(|token| match token {
        Token::Local(name) => Some(locals.number(name)),
        _ => None,
    });
    let variable = tokens.iter().find_map(|token| match token {
        Token::Meta(node) => context.debug.variable(node),
        _ => None,
    });
    read.variables.extend(local.zip(variable));
}

fn inst<'a>(
    line: &Line<'a>,
    draft: &mut Draft<'a>,
    locals: &mut Locals<'a>,
    read: &mut Function,
    context: &ModuleContext<'a>,
) -> Result<(), Error> {
    let (result, tokens) = match &line.tokens[..] {
        [Token::Local(name), Token::Mark('='), rest @ ..] => (Some(locals.number(name)), rest),
        all => (None, all),
    };
    if line.tokens.contains(&Token::Mark('*')) {
        return Err(Error::TypedPointer { line: line.number });
    }
    // Metadata follows at the end, after a comma, and is not an operand.
    let bracket = |t: &Token<'_>| matches!(t, Token::Meta(name) if !name.is_empty());
    let attached =
        tokens.windows(2).position(|pair| pair[0] == Token::Mark(',') && bracket(&pair[1]));
    let own = &tokens[..attached.filter(|_| !debugger(tokens)).unwrap_or(tokens.len())];
    let wrong = Error::Expected { line: line.number, expected: "a known instruction" };
    let found = instruction(own, locals, &context.shapes).ok_or(wrong)?;
    if let Op::Call { callee: Callee::Named(name), .. } = &found.op
        && name.starts_with("llvm.dbg.")
    {
        if name == "llvm.dbg.declare" {
            declare(own, locals, read, context);
        }
        return Ok(());
    }
    let place = location(tokens).map(|node| context.debug.place(node)).unwrap_or_default();
    let exact = exact(own, locals, &context.shapes);
    let values = joined(own, locals);
    if !values.is_empty() {
        draft.joined.push((draft.block.insts.len(), values));
    }
    draft.block.insts.push(Inst { result, op: found.op, exact, place });
    draft.labels.extend(found.labels.into_iter().map(|label| (line.number, label)));
    Ok(())
}

/// Returns true for a call whose operands are metadata.
fn debugger(tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(|token| matches!(token, Token::Global(name) if name.starts_with("llvm.dbg.")))
}
