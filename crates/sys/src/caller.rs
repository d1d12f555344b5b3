//! Who called: the name of the routine that a program called, for a message about a call that came
//! too early; the return addresses on the stack; the place in the program of one of them; and what
//! is loaded where.
//!
//! Exported functions know their names. The code that they share does not, and passing the name at
//! every put would cost time. So the few calls that end in a complaint look at the stack instead:
//! the loader knows the exported function that each return address lies in.
//!
//! Left out: programs that this library is linked into statically. They have no exported functions,
//! and their messages name "an OpenSHMEM routine".
//!
//! Unsafe code: the C library's `backtrace`, `dladdr`, `dl_iterate_phdr`, `dlsym` and `getauxval`.

use std::ffi::{CStr, c_int, c_void};

use raidshmem_core::store::objects::LoadedObject;

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

/// By how much the executable is displaced against the addresses in its file.
pub fn bias() -> Option<usize> {
    /// # Safety
    /// To be called by `dl_iterate_phdr` only, with `to` pointing to an `Option<usize>`.
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: by the contract; the loader's list begins with the executable.
        unsafe { *to.cast() = Some((*info).dlpi_addr as usize) };
        1
    }
    let mut bias = None::<usize>;
    // SAFETY: `first` has the signature asked for and does not unwind; the pointer that it is
    // called with is that of `bias`, which outlives the call and is not used otherwise.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut bias).cast()) };
    bias
}

/// Where the executable begins.
pub fn executable() -> Option<usize> {
    // SAFETY: asks for a number that the kernel gave the process: an address in the executable.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    object_of(headers as *const c_void)
}

/// The executable and the libraries that are loaded, without the one that the kernel maps.
pub fn loaded() -> Vec<LoadedObject> {
    let mut loaded = Vec::new();
    // SAFETY: `add` has the signature asked for and does not unwind; the pointer that it is called
    // with is that of `loaded`, which outlives the call and is not used otherwise.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut loaded).cast()) };
    // SAFETY: asks for a number that the kernel gave the process.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    loaded.retain(|it: &LoadedObject| vdso == 0 || !it.addresses.contains(&vdso));
    loaded
}

/// Adds an object of the loader's list to the vector at `to`.
///
/// # Safety
/// To be called by `dl_iterate_phdr` only, with `to` pointing to a `Vec<LoadedObject>` that nobody
/// else uses in the meantime.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description of a mapped object, whose headers and
    // name nobody writes during the call; the rest by the contract.
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
