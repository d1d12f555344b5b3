//! The compiler wrappers `oshcc` and `oshcxx` (`oshc++`): the user's compiler with our header,
//! library and link options added.
//!
//! The wrapper locates its files relative to itself: next to `include/` and `lib/` in an installed
//! tree, or in a cargo target folder, where the library lies in the same folder or its `deps/` and
//! the headers are in the repository it was built from. `-z now` makes the loader resolve
//! everything before the program runs, so that no later write of the loader ends up in a
//! checkpoint.
//!
//! ```text
//! -show, --showme                print the whole command line, and run nothing
//! --showme:compile, :link, :incdirs, :libdirs, :libs
//! --advise                       run oshadvise on the source files instead of the compiler
//! --help, --version              print our own, then the compiler's
//! ```
//!
//! Cargo cannot build a program called `oshc++`, so it is called `oshcxx`, and an installation
//! links the other name to it.
//!
//! Left out: the compiler's own arguments, which are passed on unchanged.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use raidshmem_sys::inherited;

/// The exit status for wrong usage or a broken installation.
const STATUS_MISUSE: u8 = 2;

/// One of the two wrappers.
pub struct Wrapper {
    /// The name: `oshcc` or `oshcxx`.
    pub name: &'static str,
    /// The variable that names another compiler.
    pub variable: &'static str,
    /// The default compiler.
    pub compiler: &'static str,
}

/// The wrapper of the C compiler.
pub const OSHCC: Wrapper = Wrapper { name: "oshcc", variable: "OSHCC_CC", compiler: "cc" };
/// The wrapper of the C++ compiler.
pub const OSHCXX: Wrapper = Wrapper { name: "oshcxx", variable: "OSHCC_CXX", compiler: "c++" };

/// The folders of our headers and the library.
struct Places {
    include: PathBuf,
    lib: PathBuf,
}

const LIBRARY: &str = "libraidshmem.so";

/// Returns the folder of our headers, for a program next to the wrappers.
///
/// # Errors
///
/// The paths that were tried.
pub fn include(own: &Path) -> Result<PathBuf, String> {
    places(own, Path::new(env!("CARGO_MANIFEST_DIR"))).map(|places| places.include)
}

/// Looks next to the wrapper itself, then in the repository it was built from.
fn places(own: &Path, repository: &Path) -> Result<Places, String> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(folder);
    // `cargo build` leaves the library in both of these, `cargo test` in the second only, so that
    // the first may hold an older one: the newest is the one this wrapper was built with.
    let mut built = [folder.to_owned(), folder.join("deps")];
    built.sort_by_key(|path| std::cmp::Reverse(changed(&path.join(LIBRARY))));
    let [newest, other] = built;
    // Debian has a library folder per processor architecture.
    let multiarch = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let libs = [prefix.join("lib"), prefix.join("lib64"), prefix.join(multiarch), newest, other];
    let includes = [prefix.join("include"), repository.join("include")];
    let shown = |paths: &[PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    let lib = libs.iter().find(|path| path.join(LIBRARY).is_file());
    let lib = lib.ok_or_else(|| format!("{LIBRARY} is in none of {}", shown(&libs)))?;
    let include = includes.iter().find(|path| path.join("shmem.h").is_file());
    let include = include.ok_or_else(|| format!("shmem.h is in none of {}", shown(&includes)))?;
    Ok(Places { include: include.clone(), lib: lib.clone() })
}

/// Returns the modification time of a file; None if it does not exist.
fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

impl Places {
    fn compile_options(&self) -> Vec<OsString> {
        vec![joined("-I", &self.include)]
    }

    fn link_options(&self) -> Vec<OsString> {
        let rpath = joined("-Wl,-rpath,", &self.lib);
        vec![
            joined("-L", &self.lib),
            rpath,
            "-lraidshmem".into(),
            "-Wl,-z,now".into(),
            "-Wl,--build-id".into(),
        ]
    }
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    text.push(path);
    text
}

/// Returns true if the compiler will call the linker with these arguments.
fn links(args: &[OsString]) -> bool {
    let stops = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-print-search-dirs"];
    let asks = ["--version", "--help", "-dumpversion", "-dumpmachine", "-v", "-###"];
    let stops = |arg: &OsString| stops.iter().any(|stop| arg == stop);
    let asks = |arg: &OsString| asks.iter().any(|ask| arg == ask) || starts(arg, "-print-");
    let files = args.iter().any(|arg| !starts(arg, "-") || arg == "-");
    !args.iter().any(stops) && (files || !args.iter().any(asks))
}

fn starts(arg: &OsStr, with: &str) -> bool {
    arg.to_str().is_some_and(|arg| arg.starts_with(with))
}

/// Combines the compiler's arguments with ours: our headers last, so that the user's take
/// precedence, and the library after the objects that need it.
fn command_line(compiler: &OsStr, args: &[OsString], places: &Places) -> Vec<OsString> {
    // The variable may hold options too, as in `OSHCC_CC="ccache gcc"`.
    let compiler = compiler.to_str().map_or_else(
        || vec![compiler.to_owned()],
        |text| text.split_whitespace().map(OsString::from).collect(),
    );
    let link = if links(args) { places.link_options() } else { Vec::new() };
    [compiler, args.to_vec(), places.compile_options(), link].concat()
}

/// Removes the arguments that only matter to code generation, the linker and the output.
fn for_adviser(args: &[OsString]) -> Vec<OsString> {
    const WITH_VALUE: &[&str] = &["-o", "-L", "-l", "-MF", "-MT", "-MQ"];
    const ALONE: &[&str] =
        &["--advise", "-c", "-S", "-s", "-pipe", "-static", "-shared", "-v", "-w"];
    const BEGINNINGS: &[&str] = &["-O", "-g", "-l", "-L", "-Wl,", "-MM", "-MD", "-MP", "-MF", "-o"];
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if WITH_VALUE.iter().any(|option| arg == option) {
            args.next();
        } else if !ALONE.iter().any(|option| arg == option)
            && !BEGINNINGS.iter().any(|with| starts(arg, with))
        {
            kept.push(arg.clone());
        }
    }
    kept
}

/// Returns the output for a query; `None` if it is not one of ours.
fn answer(question: &str, line: &[OsString], places: &Places) -> Option<Vec<OsString>> {
    Some(match question {
        "-show" | "--showme" | "-showme" => line.to_vec(),
        "--showme:compile" | "-showme:compile" => places.compile_options(),
        "--showme:link" | "-showme:link" => places.link_options(),
        "--showme:incdirs" | "-showme:incdirs" => vec![places.include.clone().into()],
        "--showme:libdirs" | "-showme:libdirs" => vec![places.lib.clone().into()],
        "--showme:libs" | "-showme:libs" => vec!["raidshmem".into()],
        _ => return None,
    })
}

/// Our options, for `--help`.
const OPTIONS: &str = "\
Runs the compiler with the headers of OpenSHMEM and, where it links, its library.

  --advise                  run oshadvise on the source files, and compile nothing
  -show, --showme           print the whole command line, and run nothing
  --showme:compile, :link   print what is added for compiling, for linking
  --showme:incdirs, :libdirs, :libs
                            print folders of headers, folders and names of libraries
  --help, --version         print this, and then what the compiler prints

All other options are the compiler's";

impl Wrapper {
    /// Returns our part of the output of `--help` or `--version`; the compiler's follows.
    fn about(&self, args: &[OsString]) -> Option<String> {
        let Wrapper { name, variable, compiler } = self;
        let version = concat!(env!("CARGO_PKG_VERSION"), " (raidshmem, OpenSHMEM 1.6)");
        let asks = |question: &str| args.iter().any(|arg| arg == question);
        let help = || {
            format!(
                "Usage: {name} [ARGUMENTS OF THE COMPILER]\n\n{OPTIONS}. It is {compiler}, or \
                 what {variable} names.\n"
            )
        };
        match () {
            () if asks("--help") => Some(help()),
            () if asks("--version") => Some(format!("{name} {version}")),
            () => None,
        }
    }

    fn complain(&self, what: &str) -> ExitCode {
        eprintln!("{}: {what}", self.name);
        ExitCode::from(STATUS_MISUSE)
    }

    /// Runs `oshadvise`, which is next to the wrapper, with the arguments that concern it.
    fn advise(&self, own: &Path) -> ExitCode {
        let args: Vec<OsString> = env::args_os().skip(1).collect();
        let program = own.with_file_name("oshadvise");
        let error = Command::new(&program).args(for_adviser(&args)).exec();
        self.complain(&format!("cannot run {}: {error}", program.display()))
    }

    /// Runs the wrapper with the arguments of this process.
    pub fn main(&self) -> ExitCode {
        inherited::collect_children(); // the compiler, which this process becomes, has some
        let own = match env::current_exe() {
            Ok(path) => path,
            Err(error) => return self.complain(&format!("cannot find itself: {error}")),
        };
        let places = match places(&own, Path::new(env!("CARGO_MANIFEST_DIR"))) {
            Ok(places) => places,
            Err(what) => return self.complain(&what),
        };
        if env::args_os().any(|arg| arg == "--advise") {
            return self.advise(&own);
        }
        let is_question = |arg: &OsString| starts(arg, "-show") || starts(arg, "--showme");
        let (questions, args): (Vec<_>, Vec<_>) = env::args_os().skip(1).partition(is_question);
        let compiler = env::var_os(self.variable).filter(|name| !name.is_empty());
        let compiler = compiler.unwrap_or_else(|| self.compiler.into());
        let line = command_line(&compiler, &args, &places);

        if let Some(question) = questions.first() {
            let question = question.to_string_lossy();
            let Some(words) = answer(&question, &line, &places) else {
                return self.complain(&format!(
                    "{question}: expected -show and --showme[:compile|:link|:incdirs|:libdirs\
                     |:libs]"
                ));
            };
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            println!("{}", words.join(" "));
            return ExitCode::SUCCESS;
        }
        if args.is_empty() {
            return self.complain("no input files");
        }
        // The compiler replaces this process, so the text is written first.
        if let Some(text) = self.about(&args) {
            let _ = writeln!(std::io::stdout(), "{text}"); // its reader may have gone
        }
        let Some((program, rest)) = line.split_first() else {
            return self.complain(&format!("{} is empty", self.variable));
        };
        let error = Command::new(program).args(rest).exec();
        let program = program.to_string_lossy();
        self.complain(&format!("cannot run {program}: {error} (set {})", self.variable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn link_options_are_there_only_when_the_compiler_links() {
        for line in ["a.c", "-o a a.c", "-O3 -v a.o", ""] {
            assert!(links(&words(line)), "{line}");
        }
        for line in
            ["-c a.c", "-E a.c", "-S a.c", "-MM a.c", "--version", "-v", "-print-file-name=x"]
        {
            assert!(!links(&words(line)), "{line}");
        }
    }

    #[test]
    fn of_two_libraries_in_a_target_folder_the_newer_is_taken() {
        let folder = std::env::temp_dir().join(format!("wrapper-{}", std::process::id()));
        let deps = folder.join("deps");
        std::fs::create_dir_all(&deps).expect("a folder");
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        let lib = || places(&folder.join("oshcc"), repository).map(|places| places.lib);
        let write = |path: &Path, age: u64| {
            let file = std::fs::File::create(path.join(LIBRARY)).expect("a file");
            let then = SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(then).expect("its time is set");
        };
        write(&deps, 10);
        assert_eq!(lib(), Ok(deps.clone()));
        write(&folder, 20);
        assert_eq!(lib(), Ok(deps.clone()), "the library next to the wrapper is stale");
        write(&folder, 10);
        write(&deps, 30);
        assert_eq!(lib(), Ok(folder.clone()));
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
    }

    #[test]
    fn the_adviser_is_given_sources_and_what_the_preprocessor_needs() {
        let line = words("--advise -O3 -g -o prog -DN=3 -I include a.c b.c -lm -L lib -std=c11");
        assert_eq!(for_adviser(&line), words("-DN=3 -I include a.c b.c -std=c11"));
    }

    #[test]
    fn a_missing_library_is_named_with_the_searched_folders() {
        let error = places(Path::new("/nowhere/bin/oshcc"), Path::new("/nowhere")).err();
        let error = error.expect("nothing is there");
        assert!(error.contains("libraidshmem.so") && error.contains("/nowhere/lib"), "{error}");
    }
}
