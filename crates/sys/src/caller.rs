//! The calling program: the routine that it called, for messages about calls made too early; return
//! addresses on the stack, and their places in the program; and the loaded objects.
//!
//! Exported functions know their names. The code that they share does not, and passing the name at
//! every put would cost time. So the few calls that end in an error inspect the stack instead: the
//! loader knows the exported function that contains each return address.
//!
//! Left out: programs that this library is linked into statically. They have no exported functions,
//! and their messages name "an OpenSHMEM routine".
//!
//! Unsafe code: the C library's `backtrace`, `dladdr`, `dl_iterate_phdr`, `dlsym` and `getauxval`.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use raidshmem_core::store::objects::LoadedObject;

/// Maximum number of return addresses inspected.
const DEPTH: usize = 64;

/// Returns the innermost exported function on the stack whose name begins with one of `prefixes`.
#[inline(never)]
pub fn exported(prefixes: &[&str]) -> Option<String> {
    let (frames, found) = frames();
    let names = frames[..found].iter().filter_map(|&frame| symbol(frame));
    names.into_iter().find(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Returns the return addresses on the stack, innermost first, and their number.
#[inline(never)]
pub fn frames() -> ([*mut c_void; DEPTH], usize) {
    let mut frames = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: an array of `DEPTH` pointers, which the call fills.
    let found = unsafe { libc::backtrace(frames.as_mut_ptr(), DEPTH as c_int) };
    (frames, usize::try_from(found).unwrap_or(0))
}

/// Returns the start of the executable or library that contains an address.
pub fn object_of(address: *const c_void) -> Option<usize> {
    describe(address).map(|info| info.dli_fbase as usize)
}

/// Returns the offset of the executable's load addresses from those in its file.
pub fn bias() -> Option<usize> {
    /// # Safety
    /// Only `dl_iterate_phdr` may call it, with `to` pointing to an `Option<usize>`.
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: by the contract; the loader's list begins with the executable.
        unsafe { *to.cast() = Some((*info).dlpi_addr as usize) };
        1
    }
    let mut bias = None::<usize>;
    // SAFETY: `first` has the required signature and does not unwind; the pointer that it is called
    // with is that of `bias`, which outlives the call and has no other use meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut bias).cast()) };
    bias
}

/// Returns the start of the executable.
pub fn executable() -> Option<usize> {
    // SAFETY: reads a number that the kernel gave the process: an address in the executable.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    object_of(headers as *const c_void)
}

/// Returns the executable and the loaded libraries, without the one that the kernel maps.
pub fn loaded() -> Vec<LoadedObject> {
    let mut loaded = Vec::new();
    // SAFETY: `add` has the required signature and does not unwind; the pointer that it is called
    // with is that of `loaded`, which outlives the call and has no other use meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut loaded).cast()) };
    // SAFETY: reads a number that the kernel gave the process.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    loaded.retain(|it: &LoadedObject| vdso == 0 || !it.addresses.contains(&vdso));
    loaded
}

/// Adds an object of the loader's list to the vector at `to`.
///
/// # Safety
/// Only `dl_iterate_phdr` may call it, with `to` pointing to a `Vec<LoadedObject>` that has no
/// other user meanwhile.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description of a mapped object, whose headers and name
    // are not written during the call; the rest by the contract.
    let (info, headers, path, to) = unsafe {
        let info = &*info;
        let headers = match info.dlpi_phdr.is_null() {
            true => &[],
            false => std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)),
        };
        (info, headers, CStr::from_ptr(info.dlpi_name), &mut *to.cast::<Vec<LoadedObject>>())
    };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let start = loads().map(|it| it.p_vaddr).min().unwrap_or(0);
    let end = loads().map(|it| it.p_vaddr + it.p_memsz).max().unwrap_or(0);
    let at = |address: u64| info.dlpi_addr.wrapping_add(address);
    let path = path.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    to.push(LoadedObject { name, addresses: at(start)..at(end) });
    0
}

/// Returns true if the program was linked with the library that exports this name, rather than
/// loading it later.
pub fn is_linked(name: &CStr) -> bool {
    // SAFETY: a C string; the result is only compared.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.is_null()
}

/// Returns the place of a return address, equal in every process that runs the program: the file
/// loaded there and the offset in it. `?` if no file is loaded there.
pub fn place(frame: *mut c_void) -> String {
    let Some(info) = describe(frame).filter(|info| !info.dli_fname.is_null()) else {
        return "?".into();
    };
    // SAFETY: dladdr returns a C string that the loader keeps as long as the object.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    let file = path.rsplit('/').next().unwrap_or_default();
    format!("{file}+{:#x}", frame.addr() - info.dli_fbase.addr())
}

/// Returns the path of the object that contains a function.
pub fn file_of(function: usize) -> Option<PathBuf> {
    let inside = std::ptr::without_provenance::<c_void>(function + 1);
    let info = describe(inside).filter(|info| !info.dli_fname.is_null())?;
    // SAFETY: dladdr returns a C string that the loader keeps as long as the object.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// Returns the exported function that contains a return address.
fn symbol(frame: *mut c_void) -> Option<String> {
    let info = describe(frame).filter(|info| !info.dli_sname.is_null())?;
    // SAFETY: dladdr returns a C string in the string table of a loaded object.
    Some(unsafe { CStr::from_ptr(info.dli_sname) }.to_str().ok()?.to_owned())
}

/// Returns the loader's description of an address.
fn describe(frame: *const c_void) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // The return address of a call that does not return may lie after the end of the caller.
    let inside = frame.wrapping_byte_sub(1);
    // SAFETY: dladdr accepts any address, and writes a description; the rest stays zero.
    let known = unsafe { libc::dladdr(inside, info.as_mut_ptr()) };
    // SAFETY: all fields are integers and pointers, for which zero is a valid value.
    let info = unsafe { info.assume_init() };
    (known != 0).then_some(info)
}
