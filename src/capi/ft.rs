//! The fault-tolerance calls: the four of the thesis, in `shmem.h`, and our extensions, in
//! `shmem_ft.h`.
//!
//! They delegate to `fault_tolerance`; only the C interface is here.
//! `shmemx_ft_register` is written in assembly, since it must know its caller. Lists are returned
//! as `malloc`ed arrays, which the caller frees.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use raidshmem_core::quantity::Pe;
use raidshmem_core::replay::place::CallSource;
use raidshmem_runtime::fault_tolerance::{self as ft, Name};
use raidshmem_runtime::pgas;
use raidshmem_sys::{caller, site};

use super::claims::{read_at, text, write_all};
use super::strided;
use crate::openshmem::check::{self, misuse};
use crate::openshmem::group::{Group, SyncPoint};
use crate::openshmem::memory::address::{In, Out, Sym, SymIn};
use crate::openshmem::memory::elements::get_elements;
use crate::openshmem::memory::place::SegmentRange;
use crate::openshmem::memory::strides::Strided;
use crate::openshmem::memory::twice;
use crate::openshmem::split;
use crate::openshmem::team::{self, Team, members, to_world};

/// The number of PEs in the last query; 0 after a restart.
static QUERIED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The last text that `shmemx_ft_last_error` returned; valid until the thread's next call.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Returns a `malloc`ed copy; null when there is nothing to copy or no memory.
fn for_caller(values: &[c_int]) -> *mut c_int {
    if values.is_empty() {
        return std::ptr::null_mut();
    }
    // SAFETY: a size that is not zero.
    let copy = unsafe { libc::malloc(size_of_val(values)) }.cast::<c_int>();
    if !copy.is_null() {
        // SAFETY: fresh memory of the size of `values`, aligned for any C type.
        unsafe { values.as_ptr().copy_to_nonoverlapping(copy, values.len()) };
    }
    copy
}

fn query(call: &'static str, pes: Out<*mut c_int>, status: Out<*mut c_int>, numpes: Out<usize>) {
    pgas::world();
    let (numbers, reasons): (Vec<c_int>, Vec<c_int>) =
        ft::query_fault().into_iter().map(|(pe, status)| (pe.at() as c_int, status)).unzip();
    for (list, values) in [(pes, &numbers), (status, &reasons)] {
        if list.addr() != 0 {
            let copy = for_caller(values);
            if copy.is_null() && !values.is_empty() {
                misuse(call, "no memory left for the list of PEs");
            }
            list.write(copy);
        }
    }
    numpes.write(numbers.len());
    QUERIED.store(numbers.len(), Ordering::Relaxed);
}

/// Restarts. The library knows the lost PEs, so it only checks the list, up to the length that the
/// preceding query returned: `numpes` may be anything.
fn restart(call: &'static str, pes: In<c_int>, numpes: usize) {
    let world = pgas::world();
    // Relaxed: only one thread at a time may query and restart.
    let filled = QUERIED.swap(0, Ordering::Relaxed);
    if pes.addr() != 0 {
        for index in 0..numpes.min(filled) {
            check::pe(call, world, read_at(pes, index));
        }
    }
    ft::restart_pes();
}

/// Returns the last error as a C string, or null.
fn last_error() -> *const c_char {
    let Some(text) = ft::last_error() else {
        return std::ptr::null();
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    TEXT.with_borrow_mut(|kept| {
        *kept = text;
        kept.as_ptr()
    })
}

/// A checkpoint call, as a function that the program calls.
type CheckpointCall = extern "C" fn() -> c_int;

fn checkpoint() -> c_int {
    pgas::world();
    let status = ft::checkpoint_all();
    site::set_source(None);
    status
}

fn note_source((file, line): (In<c_char>, c_int), number: c_int, function: In<c_char>) {
    if file.addr() != 0 && function.addr() != 0 {
        let (line, number) = (line.cast_unsigned(), number.cast_unsigned());
        let source = CallSource::of(&text(file), line, number, &text(function));
        site::set_source(Some(source));
    }
}

family! { CHECKPOINT: "Fault tolerance: the calls of the thesis";
    ONE "shmem_checkpoint_all" "" () -> c_int {
        checkpoint()
    }
    ONE "shmem_query_fault" ""
    (pes: Out<*mut c_int>, pes_status: Out<*mut c_int>, numpes: Out<usize>) {
        query(NAME, pes, pes_status, numpes)
    }
    ONE "shmem_restart_pes" "" (pes: Out<c_int>, numpes: usize) {
        restart(NAME, pes.as_in(), numpes)
    }
    ONE "shmem_ft_algo_init" "" () -> c_int {
        pgas::world();
        c_int::from(ft::algo_init())
    }
    ONE "shmemx_ft_place" ""
    (file: In<c_char>, line: c_int, number: c_int, function: In<c_char>, call: CheckpointCall)
    -> CheckpointCall {
        note_source((file, line), number, function);
        call
    }
}

/// Registers private memory, which may be null only if it is empty.
fn protect(call: &str, name: Name, memory: Out<u8>, len: usize) -> c_int {
    pgas::world();
    if memory.addr() == 0 && len != 0 {
        misuse(call, format_args!("the memory is NULL, and len {len}"));
    }
    // SAFETY: the caller guarantees memory that stays valid, as the header requires.
    unsafe { ft::protect(name, memory.pointer(), len) }
}

describe! { REGISTER: "Fault tolerance: extensions";
    ONE "shmemx_ft_register" "" [header "ft"] (addr: Out<u8>, len: usize) -> c_int;
}

/// Implements `shmemx_ft_register`: the return address `from` names the memory it registers.
extern "C" fn register(addr: Out<u8>, len: usize, from: *mut c_void) -> c_int {
    protect("shmemx_ft_register", Name::Place(&caller::place(from)), addr, len)
}

/// Defines entries that pass their return address to `register`, after the arguments of the call.
macro_rules! knows_its_place {
    ($($symbol:literal)*) => {
        $(const _: () = {
            #[unsafe(export_name = $symbol)]
            #[unsafe(naked)]
            extern "C" fn entry() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!("mov rdx, [rsp]", "jmp {inner}", inner = sym register);
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!("mov x2, x30", "b {inner}", inner = sym register);
            }
        };)*
    };
}

knows_its_place! { "shmemx_ft_register" "pshmemx_ft_register" }

/// Returns the status of a call, unless it was misused.
fn done(call: &'static str, result: Result<bool, String>) -> c_int {
    c_int::from(!result.unwrap_or_else(|words| misuse(call, words)))
}

fn event(call: &'static str, drawn: Out<u8>, len: usize) {
    pgas::world();
    if drawn.addr() == 0 && len != 0 {
        misuse(call, format_args!("ptr is NULL, and len {len}"));
    }
    if ft::keeps_events() {
        let mut bytes: Vec<u8> = (0..len).map(|at| read_at(drawn.as_in(), at)).collect();
        ft::event(&mut bytes);
        write_all(drawn, &bytes);
    }
}

/// Returns the status of a get from a PE.
fn got(call: &'static str, pe: c_int) -> c_int {
    c_int::from(!ft::may_use(check::pe(call, pgas::world(), pe)))
}

fn get_checkpoint(
    call: &'static str,
    (dest, source, nbytes): (Out<u8>, SymIn<u8>, usize),
    pe: c_int,
    number: Out<u64>,
) -> c_int {
    check::needs_shrink(call);
    if number.addr() == 0 || dest.addr() == 0 && nbytes != 0 {
        misuse(call, if number.addr() == 0 { "number is NULL" } else { "dest is NULL" });
    }
    let owner = check::pe(call, pgas::world(), pe);
    let at = match nbytes {
        0 => 0,
        _ => SegmentRange::new(call, "source", source.as_sym(), nbytes, pe).offset(),
    };
    let mut to = dest;
    let (of, got) = ft::get_checkpoint(owner, at..at + nbytes, |bytes| {
        write_all(to, bytes);
        to = to.element(bytes.len());
    });
    number.write(of.0);
    c_int::from(!got)
}

fn agree(call: &'static str, team: Team, value: Out<c_int>) -> c_int {
    check::needs_shrink(call);
    if value.addr() == 0 {
        misuse(call, "value is NULL");
    }
    let own = u64::from(read_at(value.as_in(), 0).cast_unsigned());
    let decision = Group::of_team(call, team).agree((own, 0));
    value.write((decision.value as u32).cast_signed());
    c_int::from(decision.has_news())
}

fn shadow(call: &'static str, team: Team, pe: c_int) -> c_int {
    pgas::world();
    let Some((_, _, size)) = members(team) else {
        misuse(call, "the team is SHMEM_TEAM_INVALID or was destroyed");
    };
    match usize::try_from(pe) {
        Ok(pe) if pe < size => team::shadow(team, pe).map_or(-1, |pe| pe as c_int),
        _ => misuse(call, format_args!("pe {pe}: expected 0..{}", size - 1)),
    }
}

fn failed(call: &'static str, team: Team, (pes, n): (Out<*mut c_int>, Out<usize>)) -> c_int {
    pgas::world();
    let Some((_, _, size)) = members(team) else {
        misuse(call, "the team is SHMEM_TEAM_INVALID or was destroyed");
    };
    let world_pes = (0..size as c_int).filter_map(|pe| to_world(team, pe));
    let lost = ft::failed(world_pes);
    let numbers: Vec<c_int> = (0..).zip(lost).filter(|(_, lost)| *lost).map(|(pe, _)| pe).collect();
    let copy = for_caller(&numbers);
    if copy.is_null() && !numbers.is_empty() {
        return ft::FAILURE;
    }
    pes.write(copy);
    n.write(numbers.len());
    ft::SUCCESS
}

/// A handler of losses.
type Handler = extern "C" fn(c_int, c_int, *mut c_void);

/// An argument that is passed back unchanged.
struct SendPtr(*mut c_void);

// SAFETY: the pointer is not dereferenced, and is passed back on the thread that supplied it.
unsafe impl Send for SendPtr {}

impl SendPtr {
    fn hand(&self, to: Handler, pe: Pe, status: c_int) {
        to(pe.0.cast_signed(), status, self.0);
    }
}

family! { EXTENSION: "Fault tolerance: extensions";
    ONE "shmemx_ft_protect" "" [header "ft"]
    (name: In<c_char>, ptr: Out<u8>, len: usize) -> c_int {
        if name.addr() == 0 {
            misuse(NAME, "name is NULL");
        }
        protect(NAME, Name::Given(&text(name)), ptr, len)
    }
    ONE "shmemx_ft_include" "" [header "ft"] (addr: Sym<u8>, len: usize) -> c_int {
        pgas::world();
        ft::include(addr.pointer(), len)
    }
    ONE "shmemx_ft_exclude" "" [header "ft"] (addr: Sym<u8>, len: usize) -> c_int {
        pgas::world();
        ft::exclude(addr.pointer(), len)
    }
    ONE "shmemx_ft_readonly" "" [header "ft"] (addr: Sym<u8>, len: usize) -> c_int {
        done(NAME, ft::readonly(NAME, addr.addr(), len))
    }
    ONE "shmemx_ft_writable" "" [header "ft"] (addr: Sym<u8>, len: usize) -> c_int {
        done(NAME, ft::writable(NAME, addr.addr(), len))
    }
    ONE "shmemx_ft_event" "" [header "ft"] (ptr: Out<u8>, len: usize) {
        event(NAME, ptr, len)
    }
    ONE "shmemx_ft_last_error" "" [header "ft"] () -> *const c_char {
        last_error()
    }
    ONE "shmemx_ft_checkpoint_number" "" [header "ft"] () -> u64 {
        pgas::world();
        ft::checkpoint_number()
    }
    ONE "shmemx_ft_protected" "" [header "ft"] (number: u64) -> c_int {
        pgas::world();
        c_int::from(ft::protected(number))
    }
    ONE "shmemx_ft_flush" "" [header "ft"] () -> c_int {
        ft::flush()
    }
    ONE "shmemx_ft_need_checkpoint" "" [header "ft"] () -> c_int {
        pgas::world();
        c_int::from(ft::need_checkpoint())
    }
    ONE "shmemx_ft_should_stop" "" [header "ft"] () -> c_int {
        pgas::world();
        c_int::from(ft::should_stop())
    }
    ONE "shmemx_ft_survives" "" [header "ft"] (kind: c_int, id: c_int) -> c_int {
        let known = |number: c_int| usize::try_from(number).ok();
        let survives = known(kind).zip(known(id));
        let survives = survives.and_then(|(kind, id)| pgas::world().survival().survives(kind, id));
        survives.map_or(-1, c_int::from)
    }
    ONE "shmemx_ft_get" "" [header "ft"]
    (dest: Out<u8>, source: SymIn<u8>, nbytes: usize, pe: c_int) -> c_int {
        get_elements(NAME, dest, source, nbytes, pe);
        got(NAME, pe)
    }
    RMA "shmemx_ft_" "_get" [header "ft"]
    (dest: Out<T>, source: SymIn<T>, nelems: usize, pe: c_int) -> c_int {
        get_elements(NAME, dest, source, nelems, pe);
        got(NAME, pe)
    }
    RMA "shmemx_ft_" "_iget" [header "ft"]
    (dest: Out<T>, source: SymIn<T>, dst: isize, sst: isize, nelems: usize, pe: c_int) -> c_int {
        let shape = Strided { dst, sst, bsize: 1, nblocks: nelems, element_bytes: size_of::<T>() };
        strided::get(NAME, dest.erase(), source.erase(), shape, pe.into());
        got(NAME, pe)
    }
    ONE "shmemx_ft_get_checkpoint" "" [header "ft"]
    (dest: Out<u8>, source: SymIn<u8>, nbytes: usize, pe: c_int, number: Out<u64>) -> c_int {
        get_checkpoint(NAME, (dest, source, nbytes), pe, number)
    }
    ONE "shmemx_ft_put2" "" [header "ft"]
    (dest: Sym<u8>, source: In<u8>, nbytes: usize, pe: c_int, shadow: c_int) -> c_int {
        c_int::from(!twice::put(NAME, dest, source, nbytes, [pe.into(), shadow.into()]))
    }
    ONE "shmemx_ft_shadow" "" [header "ft"] (team: Team, pe: c_int) -> c_int {
        shadow(NAME, team, pe)
    }
    ONE "shmemx_ft_agree" "" [header "ft"] (team: Team, value: Out<c_int>) -> c_int {
        agree(NAME, team, value)
    }
    ONE "shmemx_ft_shrink" "" [header "ft"] (team: Team, living: Out<Team>) -> c_int {
        check::needs_shrink(NAME);
        let made = split::shrink(NAME, (team, SyncPoint::Collective));
        living.write(made.unwrap_or(Team::INVALID));
        c_int::from(made.is_none())
    }
    ONE "shmemx_ft_failed" "" [header "ft"]
    (team: Team, pes: Out<*mut c_int>, n: Out<usize>) -> c_int {
        failed(NAME, team, (pes, n))
    }
    ONE "shmemx_ft_on_fault" "" [header "ft"] (f: Handler, arg: Out<c_void>) {
        check::needs_shrink(NAME);
        let arg = SendPtr(arg.pointer());
        ft::on_fault(move |pe, status| arg.hand(f, pe, status));
    }
    ONE "shmemx_ft_faulted" "" [header "ft"] () -> c_int {
        pgas::world();
        c_int::from(ft::faulted())
    }
}
