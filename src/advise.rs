//! The front end of `oshadvise`: from source files to the adviser's input.
//!
//! Clang prints each file as LLVM IR, at `-O0` with debug information, so that names and lines
//! match the source; the crate `raidshmem-advise` does the rest. Clang is located at run time: no
//! build step needs it.
//!
//! Left out: options and output, which are the program's (`src/bin/oshadvise.rs`).

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use raidshmem_advise::ir::Module;
use raidshmem_advise::objects::Routines;
use raidshmem_advise::{read, routines};
use raidshmem_sys::input::{self, Pipes};

use crate::capi::emit;
use crate::wrapper;

pub mod bind;

/// The oldest clang whose IR is supported.
const OLDEST: u32 = 19;
/// Longest compiler output that is read, in bytes.
const BUILT_MAX: u64 = 4 << 30;
/// The variable that names another clang.
pub const VARIABLE: &str = "OSHADVISE_CLANG";

/// The reasons why there is nothing to analyse.
#[derive(Debug, thiserror::Error)]
pub enum ClangError {
    /// No compiler was found.
    #[error(
        "no clang {OLDEST} or newer: install clang-{OLDEST} (apt-get install clang-{OLDEST}), or \
         name one by {VARIABLE}"
    )]
    NoClang,
    /// The variable does not name a suitable compiler.
    #[error("{VARIABLE}={0}: expected clang {OLDEST} or newer{1}")]
    NotClang(String, String),
    /// Our headers are missing.
    #[error("{0}")]
    NoHeaders(String),
    /// Clang failed and printed the reason.
    #[error("{0}: clang cannot compile it")]
    Compile(String),
    /// A file cannot be read.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// A file is not clang output.
    #[error("{0}: {1}")]
    Read(String, read::Error),
}

/// Returns the effects of each routine of OpenSHMEM.
#[must_use]
pub fn routines() -> Routines {
    let all = emit::signatures().into_iter().map(|signature| {
        let args: Vec<_> = signature.args.iter().map(|(name, of)| (*name, of.as_str())).collect();
        let routine = routines::routine(&signature.symbol, &args, signature.on_context);
        (signature.symbol, routine)
    });
    all.collect()
}

/// Returns the version of a clang; None if it is not clang, or cannot be run.
fn version(program: &str) -> Option<u32> {
    let output = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, after) = text.split_once("clang version ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Finds a compiler: the one that is named, or the newest of those with usual names.
///
/// # Errors
///
/// No suitable compiler exists, or the named one is unsuitable.
pub fn clang(named: Option<String>) -> Result<String, ClangError> {
    if let Some(named) = named.filter(|name| !name.is_empty()) {
        return match version(&named) {
            Some(found) if found >= OLDEST => Ok(named),
            Some(found) => Err(ClangError::NotClang(named, format!(", it is version {found}"))),
            None => Err(ClangError::NotClang(named, String::new())),
        };
    }
    let numbered = (OLDEST..OLDEST + 12).rev().map(|number| format!("clang-{number}"));
    let mut names = numbered.chain(["clang".to_owned()]);
    names.find(|name| version(name).is_some_and(|found| found >= OLDEST)).ok_or(ClangError::NoClang)
}

/// Reads one file: source by way of clang with these options, or IR directly.
///
/// # Errors
///
/// If it cannot be read or compiled.
pub fn module(clang: &str, options: &[OsString], file: &Path) -> Result<Module, ClangError> {
    let name = file.display().to_string();
    let text = if file.extension().is_some_and(|extension| extension == "ll") {
        let text = check_plain(file).and_then(|()| input::text(file, BUILT_MAX, Pipes::Refused));
        text.map_err(|error| ClangError::File(name.clone(), error))?
    } else {
        check_plain(file).map_err(|error| ClangError::File(name.clone(), error))?;
        printed(clang, options, file)?
    };
    read::module(&text).map_err(|error| ClangError::Read(name, error))
}

/// Rejects a FIFO, on which clang would block, and a device, which it would read endlessly.
fn check_plain(file: &Path) -> std::io::Result<()> {
    match std::fs::metadata(file)?.is_file() {
        true => Ok(()),
        false => Err(std::io::Error::new(ErrorKind::InvalidInput, "expected a plain file")),
    }
}

fn printed(clang: &str, options: &[OsString], file: &Path) -> Result<String, ClangError> {
    let name = || file.display().to_string();
    let output = Command::new(clang)
        .args(options)
        .args(["-g", "-O0", "-Xclang", "-disable-O0-optnone", "-S", "-emit-llvm", "-w", "-o", "-"])
        .arg("-I")
        .arg(headers()?)
        .arg(file)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| ClangError::File(clang.to_owned(), error))?;
    if !output.status.success() {
        return Err(ClangError::Compile(name()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the folder of our headers, located relative to the program.
fn headers() -> Result<PathBuf, ClangError> {
    let own = std::env::current_exe().map_err(|error| ClangError::NoHeaders(error.to_string()))?;
    wrapper::include(&own).map_err(ClangError::NoHeaders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_clang_is_named() {
        let error = clang(Some("/nowhere/clang".to_owned())).expect_err("it is not there");
        assert!(error.to_string().contains("OSHADVISE_CLANG=/nowhere/clang: expected clang 19"));
    }

    #[test]
    fn every_symbol_of_the_headers_is_known() {
        let routines = routines();
        assert_eq!(routines.len(), emit::symbols().len());
        assert!(routines["shmem_ctx_long_put_nbi"].nonblocking);
    }
}
