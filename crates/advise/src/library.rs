//! The effects on memory of functions of the C library, the C++ runtime and the compiler.
//!
//! Each argument has a letter: `r` is read, `w` written, `b` both, `-` neither; a final `*` repeats
//! the letter before it for all remaining arguments. Such a function keeps no address, and writes
//! nothing else that the program can name. Functions not listed here are unknown code.
//!
//! Left out: sizes; locales, streams and other internal state of the library.

/// The result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// Nothing that points into the program.
    Nothing,
    /// New private memory.
    New,
    /// Its first argument, or a place in the same memory.
    First,
    /// Memory of the library.
    Outside,
}

/// The effects of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    letters: &'static str,
    /// Its result.
    pub result: Result,
    /// True if pointers in the memory that it reads may be stored in the memory that it writes.
    pub copies: bool,
}

impl Model {
    fn letter(&self, argument: usize) -> u8 {
        let letters = self.letters.as_bytes();
        let fixed = letters.iter().position(|letter| *letter == b'*').unwrap_or(letters.len());
        match letters.get(argument) {
            Some(letter) if argument < fixed => *letter,
            _ if fixed < letters.len() && fixed > 0 => letters[fixed - 1],
            _ => b'-',
        }
    }

    /// Returns true if the memory of the argument is read.
    #[must_use]
    pub fn reads(&self, argument: usize) -> bool {
        matches!(self.letter(argument), b'r' | b'b')
    }

    /// Returns true if the memory of the argument is written.
    #[must_use]
    pub fn writes(&self, argument: usize) -> bool {
        matches!(self.letter(argument), b'w' | b'b')
    }
}

type Row = (&'static [&'static str], &'static str, Result, bool);

const TABLE: &[Row] = &[
    (&["malloc", "_Znwm", "_Znam", "valloc", "__cxa_allocate_exception"], "-", Result::New, false),
    (&["calloc", "aligned_alloc", "memalign", "_ZnwmSt11align_val_t"], "--", Result::New, false),
    (&["_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"], "--", Result::New, false),
    (&["realloc"], "r-", Result::New, true),
    (&["strdup", "strndup"], "r-", Result::New, true),
    (&["free", "cfree", "__cxa_free_exception"], "-", Result::Nothing, false),
    (&["_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t"], "-*", NONE, false),
    (&["memcpy", "memmove", "mempcpy", "strcpy", "strncpy", "stpcpy"], "wr-", Result::First, true),
    (&["__memcpy_chk", "__memmove_chk", "__strcpy_chk"], "wr--", Result::First, true),
    (&["strcat", "strncat"], "br-", Result::First, true),
    (&["memset", "__memset_chk"], "w---", Result::First, false),
    (&["bzero", "explicit_bzero"], "w-", NONE, false),
    (&["memcmp", "strcmp", "strncmp", "strcasecmp", "strncasecmp", "bcmp"], "rr-", NONE, false),
    (&["strlen", "strnlen", "atoi", "atol", "atoll", "atof", "puts", "perror"], "r-", NONE, false),
    (&["strchr", "strrchr", "memchr", "index"], "r--", Result::First, false),
    (&["strstr", "strpbrk"], "rr", Result::First, false),
    (&["strspn", "strcspn"], "rr", NONE, false),
    (&["printf"], "r*", NONE, false),
    (&["fprintf", "dprintf"], "-r*", NONE, false),
    (&["sprintf"], "wr*", NONE, false),
    (&["snprintf"], "w-r*", NONE, false),
    (&["scanf"], "rw*", NONE, false),
    (&["sscanf"], "rrw*", NONE, false),
    (&["fscanf"], "-rw*", NONE, false),
    (&["fopen", "fdopen", "popen"], "rr", Result::Outside, false),
    (&["fread"], "w---", NONE, false),
    (&["fwrite"], "r---", NONE, false),
    (&["fputs"], "r-", NONE, false),
    (&["fgets"], "w--", Result::First, false),
    (
        &["fclose", "fflush", "feof", "ferror", "fgetc", "getc", "rewind", "pclose"],
        "-",
        NONE,
        false,
    ),
    (&["putchar", "getchar", "fputc", "putc", "fseek", "ftell"], "---", NONE, false),
    (&["write"], "-r-", NONE, false),
    (&["pwrite"], "-r--", NONE, false),
    (&["ftruncate"], "--", NONE, false),
    (&["read"], "-w-", NONE, false),
    (&["open", "unlink", "remove", "access"], "r--", NONE, false),
    (&["close", "isatty", "getpid", "getppid", "sysconf", "sched_yield"], "-", NONE, false),
    (&["getenv"], "r", Result::Outside, false),
    (&["setenv"], "rr-", NONE, false),
    (&["exit", "_exit", "_Exit", "abort", "__assert_fail"], "rrrr", NONE, false),
    (&["rand", "srand", "random", "srandom", "drand48", "srand48", "lrand48"], "-", NONE, false),
    (&["rand_r"], "b", NONE, false),
    (&["erand48", "nrand48"], "b", NONE, false),
    (&["time"], "w", NONE, false),
    (&["clock", "sleep", "usleep", "omp_get_wtime"], "-", NONE, false),
    (&["gettimeofday"], "ww", NONE, false),
    (&["clock_gettime"], "-w", NONE, false),
    (&["nanosleep"], "rw", NONE, false),
    (&["getrusage"], "-w", NONE, false),
    (&["gethostname"], "w-", NONE, false),
    (&["abs", "labs", "llabs", "toupper", "tolower", "isdigit", "isspace"], "-", NONE, false),
    (&["frexp", "modf", "frexpf", "modff"], "-w", NONE, false),
    (&["sincos", "sincosf"], "-ww", NONE, false),
    (&["__errno_location", "__ctype_b_loc", "__ctype_tolower_loc"], "", Result::Outside, false),
    (&["__cxa_begin_catch"], "-", Result::Outside, false),
    (&["__cxa_end_catch", "_ZSt9terminatev"], "", NONE, false),
    (&["__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort"], "b", NONE, false),
];
const NONE: Result = Result::Nothing;

/// Numeric functions.
const MATH: &[&str] = &[
    "sqrt",
    "fabs",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "fmod",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
    "lround",
    "llround",
    "fmin",
    "fmax",
    "hypot",
    "cbrt",
    "ldexp",
    "erf",
    "erfc",
    "tgamma",
    "lgamma",
    "fma",
    "copysign",
    "nearbyint",
    "remainder",
    "creal",
    "cimag",
    "cabs",
    "csqrt",
    "cexp",
    "conj",
    "carg",
];

/// Returns the effects of a function, if it is known.
#[must_use]
pub fn model(name: &str) -> Option<Model> {
    if let Some(intrinsic) = name.strip_prefix("llvm.") {
        return Some(intrinsic_model(intrinsic));
    }
    let row = TABLE.iter().find(|row| row.0.contains(&name));
    let known = row.map(|row| Model { letters: row.1, result: row.2, copies: row.3 });
    known.or_else(|| {
        let number = Model { letters: "", result: NONE, copies: false };
        is_math(name).then_some(number)
    })
}

/// Returns true for a function of numbers only.
#[must_use]
pub fn is_math(name: &str) -> bool {
    let plain = name.strip_suffix(['f', 'l']);
    MATH.contains(&name) || plain.is_some_and(|plain| MATH.contains(&plain))
}

fn intrinsic_model(name: &str) -> Model {
    let starts = |with: &str| name.starts_with(with);
    let (letters, result, copies) = match name {
        _ if starts("memcpy") || starts("memmove") => ("wr--", NONE, true),
        _ if starts("memset") => ("w---", NONE, false),
        _ if starts("va_copy") => ("wr", NONE, true),
        _ if starts("va_start") => ("w", NONE, false),
        _ if starts("stacksave") || starts("eh.") => ("", NONE, false),
        _ if starts("ptrmask") || starts("launder") || starts("strip") => {
            ("-", Result::First, false)
        }
        _ if starts("threadlocal.address") => ("-", Result::First, false),
        _ if starts("masked.") || starts("x86.") || starts("aarch64.") => ("b*", NONE, true),
        _ => ("", NONE, false),
    };
    Model { letters, result, copies }
}

/// Prefixes of names in such libraries.
const BEGINNINGS: &[&str] = &[
    "_ZSt",
    "_ZNSt",
    "_ZNKSt",
    "_ZNSo",
    "_ZNSi",
    "_ZNKSo",
    "__cxa_",
    "_Unwind",
    "pthread_",
    "__kmpc_",
    "omp_",
    "__gxx",
    "llvm.",
    "__gnu",
    "_ZN9__gnu",
    "__isoc",
];

/// Functions of the C library without a model.
const SYSTEM: &[&str] = &[
    "qsort",
    "bsearch",
    "atexit",
    "getopt",
    "getopt_long",
    "vprintf",
    "vfprintf",
    "vsnprintf",
    "setjmp",
    "_setjmp",
    "__sigsetjmp",
    "longjmp",
    "siglongjmp",
    "_longjmp",
    "signal",
    "sigaction",
    "sigemptyset",
    "sigfillset",
    "sigaddset",
    "sigdelset",
    "sigprocmask",
    "strtok",
    "strtok_r",
    "strsep",
    "strtol",
    "strtoll",
    "strtoul",
    "strtoull",
    "strtof",
    "strtod",
    "strtold",
    "strerror",
    "strftime",
    "strcasestr",
    "alarm",
    "ctime",
    "difftime",
    "dup",
    "dup2",
    "fork",
    "fstat",
    "getline",
    "gmtime",
    "kill",
    "localtime",
    "lseek",
    "mkdir",
    "mktime",
    "pipe",
    "raise",
    "stat",
    "system",
    "tmpfile",
    "ungetc",
    "wait",
    "waitpid",
    "mmap",
    "munmap",
];

/// Returns true for a function of a system library, which knows no symbol of the program.
#[must_use]
pub fn is_system(name: &str) -> bool {
    SYSTEM.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Returns true if the function may return more than once.
#[must_use]
pub fn returns_twice(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "setjmp",
        "_setjmp",
        "sigsetjmp",
        "__sigsetjmp",
        "getcontext",
        "swapcontext",
        "vfork",
        "llvm.eh.sjlj.setjmp",
    ];
    NAMES.contains(&name)
}

/// Returns true if control may leave the function by this call: intrinsics do not, with one
/// exception.
#[must_use]
pub fn may_jump(name: &str) -> bool {
    !name.starts_with("llvm.") || name == "llvm.eh.sjlj.longjmp"
}

/// Returns true if it writes data from a file or string, in which pointers may have been stored.
#[must_use]
pub fn is_input(name: &str) -> bool {
    ["fread", "read", "fgets", "scanf", "fscanf", "sscanf"].contains(&name)
}

/// Returns true if an input function may read back the data that it reads.
#[must_use]
pub fn is_output(name: &str) -> bool {
    ["fwrite", "write", "pwrite"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_say_what_arguments_are_and_the_last_may_continue() {
        let copy = model("llvm.memcpy.p0.p0.i64").expect("known");
        assert!(copy.writes(0) && !copy.reads(0) && copy.reads(1) && copy.copies);
        let print = model("snprintf").expect("known");
        assert!(print.writes(0) && print.reads(2) && print.reads(7) && !print.reads(1));
        assert_eq!(model("sqrtf").map(|m| (m.reads(0), m.result)), Some((false, NONE)));
        assert_eq!(model("solve"), None);
        assert!(is_system("pthread_create") && is_system("strtol"));
        assert!(!is_system("solve") && !is_system("stream_next") && !is_system("signal_all"));
    }
}
