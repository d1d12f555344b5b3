//! Fixed load addresses of a PE in a container that forbids disabling address randomisation: the
//! program is mapped a second time, at addresses common to all PEs.
//!
//! An agent starts PEs without address randomisation. The profiles of Docker and Podman refuse
//! that, and the agent carries on. So the constructor of this library, which the loader calls
//! before any code of the program, does what the kernel does at an exec, in the same process:
//!
//! ```text
//! fill    every gap above the ceiling, so that later mappings lie below it, from the top down: at
//!         equal addresses in every process, since nothing else is mapped there
//! map     the executable at a chosen address, and the loader that it names
//! jump    to the loader, with the words that the kernel left on the stack, updated for both
//! ```
//!
//! The loader then starts over. The first image stays mapped and never runs again; it takes a few
//! pages. The executable file, the descriptors and the limits of the process stay unchanged.
//!
//! Invariant: until the jump only the free addresses of the process have changed, so a program for
//! which a step fails runs at random addresses, which [`is_random`] reports.
//!
//! Left out: processors other than x86-64; programs that load this library later or contain it,
//! whose variables are not symmetric; processes with several threads, or with a limit on their
//! address space; sanitizers, which own parts of the address space; stack, vDSO and `brk` memory,
//! which stay at random addresses and which checkpointed data must not point to.
//!
//! Unsafe code: mappings at free addresses, words that the kernel left, the jump.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use raidshmem_core::store::objects::LoadedObject;

use crate::caller;

/// The environment variable with the descriptor of a PE's control connection.
pub const CONTROL_FD: &str = "RAIDSHMEM_CONTROL_FD";

static OBJECTS: OnceLock<Vec<LoadedObject>> = OnceLock::new();
static RANDOM: AtomicBool = AtomicBool::new(false);

/// Returns the executable and the libraries that it was started with; an empty list in a process
/// that no agent started.
pub fn objects() -> &'static [LoadedObject] {
    OBJECTS.get().map_or(&[], Vec::as_slice)
}

/// Returns true if other processes have their executable and libraries at other addresses.
pub fn is_random() -> bool {
    RANDOM.load(Ordering::Relaxed) // set before the program started
}

/// The entry that makes the loader call the constructor before the program starts, with the
/// arguments of glibc.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[used]
// SAFETY: a function of the type that glibc expects of constructors.
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(libc::c_int, *mut *mut libc::c_char) = constructor;

/// # Safety
/// Only the loader may call it, with the number of the program's arguments and the first of them.
unsafe extern "C" fn constructor(count: libc::c_int, words: *mut *mut libc::c_char) {
    if std::env::var_os(CONTROL_FD).is_none_or(|fd| fd.is_empty()) {
        return; // not a PE, or a process that a PE started
    }
    // SAFETY: only queries.
    let persona = unsafe { libc::personality(0xffff_ffff) };
    if persona < 0 || persona & libc::ADDR_NO_RANDOMIZE == 0 {
        // SAFETY: by the contract.
        RANDOM.store(!unsafe { again::is_begun_or_begin(count, words) }, Ordering::Relaxed);
    }
    let _ = OBJECTS.set(caller::loaded());
}

#[cfg(not(target_arch = "x86_64"))]
mod again {
    pub unsafe fn is_begun_or_begin(_: libc::c_int, _: *mut *mut libc::c_char) -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod again {
    use std::arch::asm;
    use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileExt;

    use rustix::process::{Resource, getrlimit};

    const PAGE: usize = 4096;
    /// Load address offset of a position-independent executable.
    const EXECUTABLE: usize = 0x2000_0000_0000;
    /// The highest addresses below which everything must start; the second applies if the stack is
    /// unlimited, since the kernel then reserves most of the address space for it.
    const CEILINGS: [usize; 2] = [0x5000_0000_0000, 0x0500_0000_0000];
    /// The bit of `AT_FLAGS` that marks the second start; the kernel does not use it.
    const BEGUN: usize = 1 << 31;

    /// Returns true in the second start. Otherwise begins it, and returns only if that fails.
    ///
    /// # Safety
    /// As for a constructor.
    pub unsafe fn is_begun_or_begin(count: c_int, words: *mut *mut c_char) -> bool {
        // SAFETY: by the contract.
        let Some(stack) = (unsafe { Stack::of(count, words) }) else { return false };
        if stack.value(libc::AT_FLAGS).is_some_and(|flags| flags & BEGUN != 0) {
            return true;
        }
        // SAFETY: the loader calls constructors one by one, before the program has threads.
        unsafe { begin(&stack) };
        false
    }

    /// The top of the stack as the kernel left it: the number of arguments, the arguments, the
    /// environment, and the auxiliary vector.
    struct Stack {
        top: *mut usize,
        said: *mut [usize; 2],
    }

    impl Stack {
        /// # Safety
        /// `words` points to the first of `count` arguments.
        unsafe fn of(count: c_int, words: *mut *mut c_char) -> Option<Stack> {
            let count = usize::try_from(count).ok()?;
            let top = words.cast::<usize>().wrapping_sub(1);
            // SAFETY: glibc passes the arguments where the kernel left them, with their number
            // before them; after their terminating zero comes the environment, and after its zero
            // the auxiliary vector. No other code changes them during start-up.
            unsafe {
                if *top != count || !(*words.add(count)).is_null() {
                    return None;
                }
                let mut at = words.add(count + 1);
                while !(*at).is_null() {
                    at = at.add(1);
                }
                Some(Stack { top, said: at.add(1).cast() })
            }
        }

        /// Returns the address of the value of that kind in the auxiliary vector.
        fn find(&self, kind: libc::c_ulong) -> Option<*mut usize> {
            let mut at = self.said;
            // SAFETY: pairs up to that of kind 0.
            unsafe {
                while (*at)[0] != 0 {
                    if (*at)[0] == kind as usize {
                        return Some(&raw mut (*at)[1]);
                    }
                    at = at.add(1);
                }
            }
            None
        }

        fn value(&self, kind: libc::c_ulong) -> Option<usize> {
            // SAFETY: found there.
            self.find(kind).map(|at| unsafe { *at })
        }
    }

    /// An executable or a library in a file.
    struct Image {
        file: File,
        entry: usize,
        is_movable: bool,
        headers_at: usize,
        headers: Vec<libc::Elf64_Phdr>,
    }

    impl Image {
        fn open(path: &OsStr) -> Option<Image> {
            let file = File::open(path).ok()?;
            let mut head = [0u8; size_of::<libc::Elf64_Ehdr>()];
            file.read_exact_at(&mut head, 0).ok()?;
            // SAFETY: integers, for which all bytes are valid values.
            let head: libc::Elf64_Ehdr = unsafe { std::ptr::read_unaligned(head.as_ptr().cast()) };
            let is_ours = head.e_ident[..5] == [0x7f, b'E', b'L', b'F', libc::ELFCLASS64];
            if !is_ours || usize::from(head.e_phentsize) != size_of::<libc::Elf64_Phdr>() {
                return None;
            }
            let mut bytes = vec![0u8; usize::from(head.e_phnum) * size_of::<libc::Elf64_Phdr>()];
            file.read_exact_at(&mut bytes, head.e_phoff).ok()?;
            let rows = bytes.as_chunks::<{ size_of::<libc::Elf64_Phdr>() }>().0.iter();
            // SAFETY: as above.
            let row = |row: &[u8; _]| unsafe { std::ptr::read_unaligned(row.as_ptr().cast()) };
            let (entry, headers_at) = (head.e_entry as usize, head.e_phoff as usize);
            let is_movable = head.e_type == libc::ET_DYN;
            Some(Image { file, entry, is_movable, headers_at, headers: rows.map(row).collect() })
        }

        fn loads(&self) -> impl Iterator<Item = &libc::Elf64_Phdr> {
            self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD)
        }

        /// Opens the loader that it names.
        fn interpreter(&self) -> Option<Image> {
            let header = self.headers.iter().find(|it| it.p_type == libc::PT_INTERP)?;
            let path = self.read(header.p_offset, header.p_filesz as usize)?;
            Image::open(OsStr::from_bytes(CStr::from_bytes_until_nul(&path).ok()?.to_bytes()))
        }

        /// Returns true if it needs this library directly, so that the constructor runs before all
        /// code of the program.
        fn asks_for_us(&self) -> Option<bool> {
            const LIBRARY: &str = "libraidshmem.so";
            const NEEDED: usize = 1;
            const STRINGS: usize = 5;
            const LEN: usize = 10;
            let header = self.headers.iter().find(|it| it.p_type == libc::PT_DYNAMIC)?;
            let bytes = self.read(header.p_offset, header.p_filesz as usize)?;
            let number = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).ok();
            let pairs = bytes.as_chunks::<16>().0.iter();
            let pairs = pairs.filter_map(|pair| Some((number(&pair[..8])?, number(&pair[8..])?)));
            let pairs: Vec<(usize, usize)> = pairs.collect();
            let value = |kind| pairs.iter().find(|it| it.0 == kind).map(|it| it.1);
            let (at, len) = (value(STRINGS)? as u64, value(LEN)?);
            let holds =
                |it: &&libc::Elf64_Phdr| (it.p_vaddr..it.p_vaddr + it.p_filesz).contains(&at);
            let load = self.loads().find(holds)?;
            let strings = self.read(at - load.p_vaddr + load.p_offset, len)?;
            let is_us = |&(kind, at): &(usize, usize)| {
                let name = strings.get(at..).and_then(|it| CStr::from_bytes_until_nul(it).ok());
                let name = name.map(|it| it.to_string_lossy()).unwrap_or_default();
                kind == NEEDED && name.rsplit('/').next().unwrap_or_default().starts_with(LIBRARY)
            };
            Some(pairs.iter().any(is_us))
        }

        fn read(&self, from: u64, len: usize) -> Option<Vec<u8>> {
            let mut bytes = vec![0u8; len];
            self.file.read_exact_at(&mut bytes, from).ok().map(|()| bytes)
        }

        /// Returns its addresses in the file, in whole pages.
        fn span(&self) -> Option<(usize, usize)> {
            let start = self.loads().map(|it| it.p_vaddr as usize / PAGE * PAGE).min()?;
            let end = self.loads().map(|it| (it.p_vaddr + it.p_memsz) as usize).max()?;
            Some((start, end.next_multiple_of(PAGE)))
        }

        /// Reserves addresses for it, at `wanted` if given, and returns its displacement there.
        fn reserve(&self, wanted: Option<usize>) -> Option<usize> {
            let (start, end) = self.span()?;
            let at = none(wanted.unwrap_or(0), end - start)?;
            match wanted.is_none_or(|wanted| wanted == at) {
                true => Some(at - start),
                false => {
                    free(at, end - start);
                    None
                }
            }
        }

        /// Returns the address of its headers, without the displacement.
        fn headers_in_memory(&self) -> Option<usize> {
            let at = self.headers_at as u64;
            let holds =
                |it: &&libc::Elf64_Phdr| (it.p_offset..it.p_offset + it.p_filesz).contains(&at);
            self.loads().find(holds).map(|it| (it.p_vaddr + at - it.p_offset) as usize)
        }

        /// Maps all segments, displaced by `bias`; false if the kernel refuses one.
        ///
        /// # Safety
        /// From now on the addresses are used only through the new mappings.
        unsafe fn map(&self, bias: usize) -> bool {
            // SAFETY: by the contract.
            self.loads().all(|load| unsafe { self.map_one(load, bias) })
        }

        /// # Safety
        /// As for `map`.
        unsafe fn map_one(&self, load: &libc::Elf64_Phdr, bias: usize) -> bool {
            let start = bias + load.p_vaddr as usize;
            let (file_end, end) = (start + load.p_filesz as usize, start + load.p_memsz as usize);
            let (first, skew) = (start / PAGE * PAGE, start % PAGE);
            let flag = |bit: u32, flag| if load.p_flags & bit != 0 { flag } else { 0 };
            let may = flag(libc::PF_R, libc::PROT_READ)
                | flag(libc::PF_W, libc::PROT_WRITE)
                | flag(libc::PF_X, libc::PROT_EXEC);
            let fixed = libc::MAP_PRIVATE | libc::MAP_FIXED;
            let map = |at: usize, len: usize, flags, fd, from: usize| {
                // SAFETY: by the contract of this function.
                len == 0
                    || unsafe { libc::mmap(at as _, len, may, flags, fd, from as i64) }
                        != libc::MAP_FAILED
            };
            let bytes = if load.p_filesz == 0 { 0 } else { file_end - first };
            let fd = self.file.as_raw_fd();
            if !map(first, bytes, fixed, fd, load.p_offset as usize - skew) {
                return false;
            }
            let rest = if bytes == 0 { first } else { file_end.next_multiple_of(PAGE) };
            if end > file_end && bytes > 0 && may & libc::PROT_WRITE != 0 {
                // SAFETY: the rest of a page that was mapped above, and may be written.
                unsafe { std::ptr::write_bytes(file_end as *mut u8, 0, rest - file_end) };
            }
            let zeroes = end.next_multiple_of(PAGE).saturating_sub(rest);
            map(rest, zeroes, fixed | libc::MAP_ANONYMOUS, -1, 0)
        }
    }

    /// Reserves inaccessible addresses, near `hint` if that is not 0; None if none are free.
    fn none(hint: usize, len: usize) -> Option<usize> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at free addresses, which cannot be accessed.
        let at = unsafe { libc::mmap(hint as _, len, libc::PROT_NONE, flags, -1, 0) };
        (at != libc::MAP_FAILED).then_some(at as usize)
    }

    /// Releases addresses reserved by [`none`].
    fn free(at: usize, len: usize) {
        // SAFETY: such a mapping, which is not in use.
        unsafe { libc::munmap(at as *mut c_void, len) };
    }

    /// Returns the address of the highest free page.
    fn top() -> Option<usize> {
        let at = none(0, PAGE)?;
        free(at, PAGE);
        Some(at)
    }

    /// Reserves all free addresses above the first ceiling below the top; false if that fails.
    fn fill() -> bool {
        let Some(top) = top() else { return false };
        let Some(ceiling) = CEILINGS.into_iter().find(|&it| it < top) else { return false };
        let mut len = 1 << 46;
        while len >= PAGE {
            match none(0, len) {
                Some(at) if (ceiling..=top).contains(&at) => continue,
                Some(at) => free(at, len),
                None => {}
            }
            len /= 2;
        }
        self::top().is_some_and(|top| top < ceiling)
    }

    /// Returns true if this process has one thread, no code that cannot start twice, and no limit
    /// on its addresses.
    fn may_begin() -> bool {
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        // SAFETY: a C string; the result is only compared.
        let sanitizer =
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__sanitizer_set_report_fd".as_ptr()) };
        let is_limited = getrlimit(Resource::As).current.is_some();
        threads == 1 && sanitizer.is_null() && !is_limited
    }

    /// Starts over; returns only on failure, with only the free addresses changed.
    ///
    /// # Safety
    /// No other thread runs, and the stack is that of the process.
    unsafe fn begin(stack: &Stack) -> Option<()> {
        let executable = Image::open(OsStr::new("/proc/self/exe")).filter(|_| may_begin())?;
        if !executable.asks_for_us()? {
            return None; // the program may have started before it loaded this library
        }
        let loader = executable.interpreter().filter(|it| it.is_movable)?;
        let kinds = [libc::AT_PHDR, libc::AT_ENTRY, libc::AT_BASE, libc::AT_FLAGS];
        let places = kinds.map(|kind| stack.find(kind));
        let headers = executable.headers_in_memory()?;
        let (start, end) = executable.span()?;
        let own = (&raw const super::RANDOM) as usize;
        if places.contains(&None) || !executable.is_movable && (start..end).contains(&own) {
            return None; // an image that cannot move would be overwritten while it runs
        }
        if !fill() {
            return None;
        }
        let bias = match executable.is_movable {
            true => executable.reserve(Some(EXECUTABLE))?,
            false => 0,
        };
        let base = loader.reserve(None)?;
        // SAFETY: addresses reserved above, or those of an executable of which no code has run yet,
        // and none will run before it is restored.
        let mapped = unsafe { loader.map(base) && executable.map(bias) };
        if !mapped {
            return None;
        }
        let values = [bias + headers, bias + executable.entry, base, BEGUN];
        // SAFETY: words of the stack that were found above.
        places.into_iter().flatten().zip(values).for_each(|(at, value)| unsafe { *at = value });
        let entry = base + loader.entry;
        drop((executable, loader)); // closes their files
        forget_rseq();
        // SAFETY: the loader starts as after an exec: at its entry, with the stack as the kernel
        // left it and no exit function registered.
        unsafe {
            asm!(
                "mov rsp, {stack}", "xor ebp, ebp", "xor edx, edx", "jmp {entry}",
                stack = in(reg) stack.top, entry = in(reg) entry, options(noreturn),
            )
        }
    }

    /// Unregisters the thread's restartable sequences, so that the C library of the second start
    /// can register them again.
    fn forget_rseq() {
        const UNREGISTER: c_int = 1;
        const SIGNATURE: u32 = 0x5305_3053;
        const LEN: usize = 32;
        // SAFETY: names of glibc's; a number that the first start has written.
        unsafe {
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
            if offset.is_null() {
                return;
            }
            let thread: usize;
            asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly));
            let area = thread.wrapping_add_signed(*offset.cast::<isize>());
            libc::syscall(libc::SYS_rseq, area, LEN, UNREGISTER, SIGNATURE);
        }
    }
}
