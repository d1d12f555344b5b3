//! The calls that read a checkpoint on disk, of any number of PEs, in `shmem_ft.h`.
//!
//! They delegate to `raidshmem_disk::reader`. A set is a number of this process, like a file
//! descriptor. None of these calls needs `shmem_init`, and none concerns other PEs.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, Mutex};

use raidshmem_core::quantity::Pe;
use raidshmem_disk::reader::{ReadError, SetReader};
use raidshmem_runtime::fault_tolerance::{FAILURE, SUCCESS};
use raidshmem_sys::lock;

use super::claims::{string, write_all};
use crate::openshmem::check::misuse;
use crate::openshmem::memory::address::{In, Out};

/// The sets of this process, by number; None once closed.
static SETS: Mutex<Vec<Option<Arc<OpenSet>>>> = Mutex::new(Vec::new());

thread_local! {
    /// The reason of this thread's last failure, valid until its next one.
    static REASON: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// A set, and the objects of its first PE.
struct OpenSet {
    reader: SetReader,
    listed: Vec<(CString, u64)>,
}

/// Keeps the reason of a failure for `shmemx_ft_set_error`.
fn failed(why: impl std::fmt::Display) -> c_int {
    let text = CString::new(why.to_string().replace('\0', " ")).unwrap_or_default();
    REASON.with_borrow_mut(|kept| *kept = Some(text));
    FAILURE
}

fn open(given: &str) -> Result<c_int, ReadError> {
    let reader = SetReader::open(given)?;
    let name = |name: &str| CString::new(name.replace('\0', " ")).unwrap_or_default();
    let listed = reader.objects(Pe(0))?.iter().map(|it| (name(&it.name), it.len)).collect();
    let mut sets = lock(&SETS);
    sets.push(Some(Arc::new(OpenSet { reader, listed })));
    Ok((sets.len() - 1) as c_int)
}

/// Returns a set that is open.
fn opened(call: &str, set: c_int) -> Arc<OpenSet> {
    let found = usize::try_from(set).ok().and_then(|set| lock(&SETS).get(set)?.clone());
    found.unwrap_or_else(|| misuse(call, format_args!("set {set} is not open")))
}

/// Reads through a buffer, since the destination may not be initialized.
fn read(set: &OpenSet, object: &str, pe: c_int, offset: usize, to: Out<u8>, len: usize) -> c_int {
    const PIECE: usize = 4 << 20;
    let Ok(pe) = u32::try_from(pe).map(Pe) else {
        return failed(format_args!("there is no PE {pe}"));
    };
    if let Err(error) = set.reader.check(object, pe, offset as u64, len as u64) {
        return failed(error);
    }
    let mut piece = vec![0; len.min(PIECE)];
    for at in (0..len).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(len - at)];
        if let Err(error) = set.reader.read(object, pe, (offset + at) as u64, piece) {
            return failed(error);
        }
        write_all(to.element(at), piece);
    }
    SUCCESS
}

family! { SET: "Fault tolerance: checkpoints on disk";
    ONE "shmemx_ft_set_open" "" [header "ft"] (dir: In<c_char>) -> c_int {
        if dir.addr() == 0 {
            misuse(NAME, "dir is NULL");
        }
        open(&string(dir)).unwrap_or_else(|error| {
            failed(error);
            -1
        })
    }
    ONE "shmemx_ft_set_list" "" [header "ft"]
    (set: c_int, index: usize, name: Out<*const c_char>, npes: Out<c_int>, nbytes: Out<usize>)
    -> c_int {
        let set = opened(NAME, set);
        match set.listed.get(index) {
            Some((text, len)) => {
                name.write(text.as_ptr());
                npes.write(set.reader.pes() as c_int);
                nbytes.write(*len as usize);
                SUCCESS
            }
            None => failed(format_args!("the set has {} objects", set.listed.len())),
        }
    }
    ONE "shmemx_ft_set_read" "" [header "ft"]
    (set: c_int, object: In<c_char>, pe: c_int, offset: usize, dest: Out<u8>, nbytes: usize)
    -> c_int {
        if object.addr() == 0 || dest.addr() == 0 && nbytes != 0 {
            misuse(NAME, if object.addr() == 0 { "object is NULL" } else { "dest is NULL" });
        }
        read(&opened(NAME, set), &string(object), pe, offset, dest, nbytes)
    }
    ONE "shmemx_ft_set_close" "" [header "ft"] (set: c_int) {
        opened(NAME, set);
        lock(&SETS)[set as usize] = None;
    }
    ONE "shmemx_ft_set_error" "" [header "ft"] () -> *const c_char {
        REASON.with_borrow(|kept| kept.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()))
    }
}
