//! Tasks of another launcher, such as srun: before its `main`, a program that one of them started
//! becomes `oshrun`, which runs the program as a PE of the whole step.
//!
//! The constructor of this library replaces the process by `oshrun`, with the words of the program.
//! Constructors that ran before, of other libraries, run again in the PEs; what they did is lost.
//!
//! Left out: what `oshrun` does then. A step without PMI-1, of which `shmem_init` reports that it
//! cannot run. Our own programs, which are no PEs.
//!
//! Unsafe code: the entry of the constructor.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::startup::CONTROL_FD;

/// Hidden first argument that makes `oshrun` a task of another launcher.
pub const TASK_ARGUMENT: &str = "--raidshmem-task";

/// The variables that make a program a task: the descriptor of its connection to the server of PMI,
/// its number, the number of tasks.
pub const VARIABLES: [&str; 3] = ["PMI_FD", "PMI_RANK", "PMI_SIZE"];

/// Makes each task a job of one PE instead.
const SINGLETON: &str = "SHMEM_FT_SINGLETON";

/// Programs of ours that contain this library.
const OWN: [&str; 6] = ["oshrun", "oshinfo", "oshcc", "oshcxx", "oshreport", "oshadvise"];

/// The entry that makes the loader call the constructor before the program starts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[used]
// SAFETY: the section of functions without arguments that run at the start of a program.
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    let value = |name: &str| std::env::var(name).ok();
    if is_task(value)
        && let Ok(program) = std::env::current_exe()
        && !OWN.iter().any(|own| program.file_name() == Some(own.as_ref()))
    {
        become_task(&program);
    }
}

/// Returns true in a task of several that can find each other.
fn is_task(value: impl Fn(&str) -> Option<String>) -> bool {
    let [fd, rank, size] = VARIABLES.map(|name| value(name)?.parse::<u32>().ok());
    let is_wanted = value(SINGLETON).is_none_or(|word| word.is_empty() || word == "0");
    // A PE has the variable, and a program that it starts finds it blank.
    fd.is_some() && rank < size && size > Some(1) && value(CONTROL_FD).is_none() && is_wanted
}

/// Replaces this process. Returns if `oshrun` cannot be started: `shmem_init` reports the task.
fn become_task(program: &Path) {
    let words = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut words: Vec<OsString> =
        words.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    words.pop(); // after the last zero
    for oshrun in candidates(program) {
        let mut command = Command::new(oshrun);
        let _ = command.arg(TASK_ARGUMENT).args(&words).exec();
    }
}

/// Returns the places where `oshrun` may be: next to this library or the program, in the folder for
/// programs of its prefix, and last in the search path.
fn candidates(program: &Path) -> Vec<PathBuf> {
    let library = crate::caller::file_of(constructor as *const () as usize);
    let near = |object: &Path| {
        let folder = object.parent().map(Path::to_owned).unwrap_or_default();
        ["oshrun", "../oshrun", "../bin/oshrun", "../../bin/oshrun"].map(|name| folder.join(name))
    };
    let objects = library.iter().map(PathBuf::as_path).chain([program]);
    let near = objects.flat_map(near).filter(|path| path.is_file());
    near.chain([PathBuf::from("oshrun")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_task_of_several_with_a_connection_becomes_one() {
        let of = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
            is_task(|name| value(name).map(|(_, value)| (*value).to_owned()))
        };
        let task = [("PMI_FD", "5"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        let with = |more| of(&[&task[..], &[more]].concat());
        assert!(of(&task) && with((SINGLETON, "0")));
        assert!(!with((SINGLETON, "1")) && !with((CONTROL_FD, "")) && !with((CONTROL_FD, "3")));
        assert!(!of(&task[..2]) && !of(&task[1..]));
        assert!(!of(&[("PMI_FD", "5"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")]));
    }
}
