//! Who called: the name of the routine that a program called, for a message about a call that came
//! too early; the return addresses on the stack; and the place in the program of one of them.
//!
//! Exported functions know their names. The code that they share does not, and passing the name at
//! every put would cost time. So the few calls that end in a complaint look at the stack instead:
//! the loader knows the exported function that each return address lies in.
//!
//! Left out: programs that this library is linked into statically. They have no exported functions,
//! and their messages name "an OpenSHMEM routine".
//!
//! Unsafe code: the C library's `backtrace`, `dladdr`, `dlsym` and `getauxval`.

use std::ffi::{CStr, c_int, c_void};

/// Return addresses that are looked at.
const DEPTH: usize = 64;

/// The exported function on the stack whose name begins with one of `prefixes`, the innermost.
#[inline(never)]
pub fn exported(prefixes: &[&str]) -> Option<String> {
    let (frames, found) = frames();
    let names = frames[..found].iter().filter_map(|&frame| symbol(frame));
    names.into_iter().find(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Return addresses on the stack, innermost first, and how many.
#[inline(never)]
pub fn frames() -> ([*mut c_void; DEPTH], usize) {
    let mut frames = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: an array of that many pointers, to be written.
    let found = unsafe { libc::backtrace(frames.as_mut_ptr(), DEPTH as c_int) };
    (frames, usize::try_from(found).unwrap_or(0))
}

/// Where the executable or library begins that an address lies in.
pub fn object_of(address: *const c_void) -> Option<usize> {
    describe(address).map(|info| info.dli_fbase as usize)
}

/// Where the executable begins.
pub fn executable() -> Option<usize> {
    // SAFETY: asks for a number that the kernel gave the process: an address in the executable.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    object_of(headers as *const c_void)
}

/// True if the program was linked with the library that exports this name: it was not loaded later.
pub fn is_linked(name: &CStr) -> bool {
    // SAFETY: a C text; the answer is only compared.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.is_null()
}

/// The place of a return address, the same in every process that runs the program: the file that
/// was loaded there and the offset in it. `?` where nothing was loaded.
pub fn place(frame: *mut c_void) -> String {
    let Some(info) = describe(frame).filter(|info| !info.dli_fname.is_null()) else {
        return "?".into();
    };
    // SAFETY: dladdr gives a C text that the loader keeps as long as the object.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    let file = path.rsplit('/').next().unwrap_or_default();
    format!("{file}+{:#x}", frame.addr() - info.dli_fbase.addr())
}

/// The exported function that a return address is in.
fn symbol(frame: *mut c_void) -> Option<String> {
    let info = describe(frame).filter(|info| !info.dli_sname.is_null())?;
    // SAFETY: dladdr gives a C text in the string table of a loaded object.
    Some(unsafe { CStr::from_ptr(info.dli_sname) }.to_str().ok()?.to_owned())
}

/// What the loader knows of a return address.
fn describe(frame: *const c_void) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // The return address of a call that does not return may lie behind the end of the caller.
    let inside = frame.wrapping_byte_sub(1);
    // SAFETY: dladdr accepts any address, and writes a description; the rest stays zero.
    let known = unsafe { libc::dladdr(inside, info.as_mut_ptr()) };
    // SAFETY: all of it is integers and pointers, for which zero is a value.
    let info = unsafe { info.assume_init() };
    (known != 0).then_some(info)
}
