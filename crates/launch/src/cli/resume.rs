//! Checkpoints on disk as the command line names them: the folder they are written to, and the set
//! that a job resumes from.

#![forbid(unsafe_code)]

use std::path::Path;

use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::{Folders, Resume};
use raidshmem_core::settings::{Settings, StoreLayout};
use raidshmem_disk::examine::StoredSet;
use raidshmem_disk::files::SetError;
use raidshmem_disk::sets::{self, Set};
use raidshmem_sys::pool::{self, WorkerPool};
use raidshmem_sys::process;

use super::ready::Disks;
use super::refused::Refused;

/// A set to resume from.
struct FoundSet {
    resume: Resume,
    heap_len: u64,
    /// Notices printed at the start.
    notes: Vec<String>,
}

/// The starting point of a job.
pub struct Begin {
    /// The job's settings, including those that the set determines.
    pub settings: Settings,
    /// The set.
    pub resume: Option<Resume>,
    /// The set, if it must first be found on the nodes' disks.
    pub disks: Option<Disks>,
    /// Notices printed at the start.
    pub notes: Vec<String>,
}

/// Determines the starting point of a job of `pes` PEs from the arguments of `--resume` and
/// `--resume-rebuilt`. If sets are on the nodes' disks, only the agents can read them.
///
/// # Errors
/// The set does not fit the job.
pub fn settle(
    given: Option<&str>,
    rebuilt: bool,
    pes: usize,
    mut settings: Settings,
) -> Result<Begin, Refused> {
    if let Some(store) = &mut settings.store {
        let path = std::path::absolute(&*store);
        let path = path.map_err(|error| Refused::Store { path: store.clone(), error })?;
        *store = path.display().to_string(); // programs may run elsewhere
    }
    let (resume, disks, notes) = (None, None, Vec::new());
    let Some(given) = given else { return Ok(Begin { settings, resume, disks, notes }) };
    let refused = |why: String| Refused::Resume { got: given.to_owned(), why };
    if !settings.backup_mode.keeps_snapshot() {
        let mode = settings.backup_mode.name();
        let why = format!("expected --mode double, raid4, raid5 or rs, not {mode}");
        return Err(refused(why));
    }
    if settings.store_layout == StoreLayout::Local {
        let (folder, set) = sets::split(given);
        let folder = std::path::absolute(&folder).map_err(|error| refused(error.to_string()))?;
        let folder = folder.display().to_string();
        let disks = Some(Disks { given: given.to_owned(), folder, set, rebuilt });
        return Ok(Begin { settings, resume, disks, notes });
    }
    let FoundSet { resume, heap_len, notes } = find(given, pes)?;
    settings.symmetric_size = Some(heap_len);
    Ok(Begin { settings, resume: Some(Resume { rebuilt, ..resume }), disks, notes })
}

/// Creates the folder of `SHMEM_FT_STORE`; on the nodes' disks, the agents do so.
///
/// # Errors
/// The folder cannot be created.
pub fn make_store(settings: &Settings) -> Result<(), Refused> {
    let here = settings.store.as_ref().filter(|_| settings.store_layout == StoreLayout::Shared);
    let made = here.map(|path| (path, std::fs::create_dir_all(path)));
    match made {
        Some((path, Err(error))) => Err(Refused::Store { path: path.clone(), error }),
        _ => Ok(()),
    }
}

/// Finds the set that `--resume` names, for a job of `pes` PEs.
fn find(given: &str, pes: usize) -> Result<FoundSet, Refused> {
    let refused = |why: String| Refused::Resume { got: given.to_owned(), why };
    let (folder, number) = sets::split(given);
    let sets = sets::list(&folder).map_err(|error| refused(error.to_string()))?;
    let mut notes = Vec::new();
    let (set, manifest) = match number {
        Some(number) => {
            let set = sets.iter().find(|set| set.number == number);
            let set = set.ok_or_else(|| refused(format!("expected {}", numbers(&sets))))?;
            (set, whole(set, None).map_err(|error| refused(error.to_string()))?)
        }
        None => newest(&sets, &|_| true, &mut notes).map_err(refused)?,
    };
    let saved = manifest.entries.len();
    if saved != pes {
        let number = set.number;
        return Err(refused(format!("set {number} is of {saved} PEs; expected -n {saved}")));
    }
    notes.push(format!(
        "begins from set {}, checkpoint {} of {}",
        set.number, manifest.number, manifest.program
    ));
    Ok(FoundSet { resume: resume_of(set, &manifest), heap_len: manifest.heap_len, notes })
}

/// A set that a running job falls back to.
pub struct OwnSet {
    /// Its number.
    pub set: u64,
    /// Its files.
    pub resume: Resume,
    /// Notices on the sets that were passed over.
    pub notes: Vec<String>,
}

/// Finds the newest set in `folder` that holds and that `may_be` taken; reads every byte of it.
///
/// # Errors
/// There is none: the reason, as text.
pub fn find_own(folder: &str, may_be: &dyn Fn(&Manifest) -> bool) -> Result<OwnSet, String> {
    let sets = sets::list(Path::new(folder)).map_err(|error| error.to_string())?;
    let mut notes = Vec::new();
    let (set, manifest) = newest(&sets, may_be, &mut notes)?;
    Ok(OwnSet { set: set.number, resume: resume_of(set, &manifest), notes })
}

/// Returns the newest set that holds and that `may_be` taken; adds a notice for each that does not
/// hold. Every byte is verified now: during the start it would be too late to take an older set.
fn newest<'a>(
    sets: &'a [Set],
    may_be: &dyn Fn(&Manifest) -> bool,
    notes: &mut Vec<String>,
) -> Result<(&'a Set, Manifest), String> {
    let cpus = process::usable();
    let pool = WorkerPool::new(pool::fair(cpus.len(), 1), cpus);
    for set in sets {
        if set.manifest().is_ok_and(|manifest| !may_be(&manifest)) {
            continue;
        }
        match whole(set, Some(&pool)) {
            Ok(manifest) => return Ok((set, manifest)),
            Err(error) => notes.push(format!("set {} is skipped: {error}", set.number)),
        }
    }
    let why = notes.first().map(|note| format!("; {note}")).unwrap_or_default();
    Err(format!("there is no complete checkpoint{why}"))
}

fn resume_of(set: &Set, manifest: &Manifest) -> Resume {
    let folder = std::path::absolute(&set.folder).unwrap_or_else(|_| set.folder.clone());
    let folders = Folders::Shared(folder.display().to_string());
    let (job, number, pages) = (manifest.job, manifest.number, manifest.pages.clone());
    Resume { job, number, folders, rebuilt: false, pages }
}

/// Returns the manifest of a set whose files are whole; without a pool, only their heads are read.
fn whole(set: &Set, pool: Option<&WorkerPool>) -> Result<Manifest, SetError> {
    let mut stored = StoredSet::of(set)?;
    pool.into_iter().for_each(|pool| stored.read(pool));
    stored.judge(false)?;
    Ok(stored.manifest)
}

/// Lists the available sets, for messages.
fn numbers(sets: &[Set]) -> String {
    let numbers: Vec<String> = sets.iter().map(|set| format!("@{}", set.number)).collect();
    if numbers.is_empty() { "a folder with sets".to_owned() } else { numbers.join(" or ") }
}
