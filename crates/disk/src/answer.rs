//! The `oshinfo store` command: lists the checkpoints of a folder, verifies, repairs and deletes
//! them, and writes their objects to files.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{CommandFactory, Parser};
use raidshmem_archive::choose;
use raidshmem_archive::manifest::Manifest;
use raidshmem_core::disk::Held;
use raidshmem_core::quantity::Pe;
use raidshmem_report::words::bytes;
use raidshmem_sys::pool::{self, WorkerPool};
use raidshmem_sys::process;
use serde_json::json;

use super::copy::copy;
use super::examine::StoredSet;
use super::extract::extract;
use super::files::SetError;
use super::held;
use super::reader::{ReadError, SetReader};
use super::repair::{Repair, repair};
use super::sets::{self, Set};

/// Returns the description of the options.
pub fn command() -> clap::Command {
    Words::command()
}

/// Lists the checkpoints in a folder of SHMEM_FT_STORE, the newest first.
#[derive(Debug, Parser)]
#[command(name = "oshinfo store", disable_version_flag = true)]
struct Words {
    /// The folder.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Read every byte and check it; the status is 1 if a check fails.
    #[arg(long)]
    verify: bool,
    /// First rebuild damaged and missing files from parity; the status is 1 if that fails for any.
    #[arg(long)]
    repair: bool,
    /// First delete all sets but the newest K and those they refer to, and what killed jobs left
    /// behind.
    #[arg(long, value_name = "K")]
    prune: Option<usize>,
    /// Only list the objects of a set, `DIR@7` or the newest, with their bytes on each PE.
    #[arg(long, conflicts_with_all = ["verify", "repair", "prune", "json", "extract"])]
    objects: bool,
    /// Only copy a set, `DIR@7` or the newest, to the folder TO, with every block that it refers
    /// to. It overwrites nothing.
    #[arg(long, value_name = "TO")]
    #[arg(conflicts_with_all = ["verify", "repair", "prune", "json", "objects", "extract"])]
    copy: Option<PathBuf>,
    /// Only write an object of all PEs of a set to a file NAME.npy here, which must not exist.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["verify", "repair", "prune", "json"])]
    extract: Option<String>,
    /// Print JSON, as docs/schema/store.json describes it.
    #[arg(long)]
    json: bool,
}

/// The version of the JSON format; a change that a reader would notice raises it.
const FORMAT: u32 = 1;

/// The answer to a query.
#[derive(Debug)]
pub struct Answer {
    /// The text for standard output.
    pub text: String,
    /// True if every set is intact, or was repaired.
    pub well: bool,
}

/// The reasons why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The arguments ask for help, or are invalid.
    #[error("{0}")]
    Words(#[from] clap::Error),
    /// The set or its object cannot be read, or not be written to a file.
    #[error("store: {0}")]
    Object(#[from] ReadError),
    /// The folder cannot be read, or nothing can be deleted there.
    #[error("store: {0}")]
    Folder(#[from] SetError),
}

/// Answers the arguments after `oshinfo store`.
///
/// # Errors
/// The arguments are invalid, or the folder cannot be read.
pub fn answer(words: impl Iterator<Item = String>) -> Result<Answer, NoAnswer> {
    let words = Words::try_parse_from(std::iter::once("oshinfo store".to_owned()).chain(words))?;
    let folder = words.folder.as_path();
    if words.objects || words.extract.is_some() || words.copy.is_some() {
        let reader = SetReader::open(&folder.to_string_lossy())?;
        let text = match (&words.extract, &words.copy) {
            (Some(name), _) => extracted(&reader, name)?,
            (None, Some(to)) => copied(&reader, to)?,
            (None, None) => objects(&reader)?,
        };
        return Ok(Answer { text, well: true });
    }
    let cpus = process::usable();
    let pool = WorkerPool::new(pool::fair(cpus.len(), 1), cpus);
    let done = Done {
        gone: words.prune.map(|keep| prune(folder, keep)).transpose()?.unwrap_or_default(),
        repairs: match words.repair {
            true => repair(folder, &pool)?,
            false => Vec::new(),
        },
    };
    let mut stored = StoredSet::list(folder)?;
    if words.verify {
        stored.iter_mut().for_each(|set| set.read(&pool));
    }
    let look = |set: &Set| look(set, &stored, words.verify);
    let sets: Vec<(Set, Result<Listed, String>)> =
        sets::everywhere(folder)?.into_iter().map(|set| (set.clone(), look(&set))).collect();
    let well = sets.iter().all(|(_, looked)| looked.is_ok());
    let disks = Disks([held::list(folder)]);
    let text = match words.json {
        true => format!("{:#}\n", in_json(folder, &sets, &done, &disks)),
        false => in_words(folder, &sets, &done, words.verify.then_some(&disks)),
    };
    let repaired = done.repairs.iter().all(|repair| repair.failed.is_none());
    Ok(Answer { text, well: well && repaired })
}

/// Lists the objects of a set.
fn objects(reader: &SetReader) -> Result<String, ReadError> {
    let mut text = format!("set {}  of {} PEs\n", reader.number(), reader.pes());
    for object in reader.objects(Pe(0))? {
        let _ = writeln!(text, "  {}  {} bytes", object.name.escape_debug(), object.len);
    }
    Ok(text)
}

/// Writes an object of a set to a file; returns a line about it.
fn extracted(reader: &SetReader, name: &str) -> Result<String, ReadError> {
    let (path, len) = extract(reader, name, Path::new(""))?;
    let (set, pes, path) = (reader.number(), reader.pes(), path.display());
    Ok(format!("set {set}  {path}: {} of {pes} PEs, {len} bytes each\n", name.escape_debug()))
}

/// Copies a set; returns a line about each new folder.
fn copied(reader: &SetReader, to: &Path) -> Result<String, ReadError> {
    let line =
        |folder: &PathBuf| format!("set {}  copied whole: {}\n", reader.number(), folder.display());
    Ok(copy(reader.decoder(), to)?.iter().map(line).collect())
}

/// The changes made before the sets are listed.
struct Done {
    /// The numbers of the deleted sets.
    gone: Vec<u64>,
    repairs: Vec<Repair>,
}

/// A set that is as it should be.
struct Listed {
    manifest: Manifest,
    /// The newest set that it is there for, if it cannot hold itself.
    only_for: Option<u64>,
}

/// Reads the manifest of a set. If the sets were `verified`, also reports the damage in its folder,
/// and if that can be repaired.
fn look(set: &Set, all: &[StoredSet], verified: bool) -> Result<Listed, String> {
    let manifest = set.manifest().map_err(|error| error.to_string())?;
    let stored = all.iter().find(|stored| stored.folders.contains(&set.folder));
    let only_for = stored.and_then(|stored| stored.is_only_for(all));
    let stored = stored.filter(|_| verified && only_for.is_none());
    let damage = stored.and_then(|stored| Some((stored, stored.damage_in(&set.folder)?)));
    let Some((stored, damage)) = damage else { return Ok(Listed { manifest, only_for }) };
    let why = &damage.why;
    Err(match stored.judge(true) {
        Ok(()) => format!("{why}; --repair makes it again"),
        Err(_) if stored.manifest.parity.is_none() => why.clone(),
        Err(error) => format!("{why}; {error}"),
    })
}

/// Deletes old sets here and in the folders of nodes; returns the numbers of the deleted sets.
fn prune(folder: &Path, keep: usize) -> Result<Vec<u64>, SetError> {
    Ok([sets::prune(folder, keep)?, held::prune(folder, keep)?].concat())
}

/// The contents of the local disks, for checkpoints that lie on the disks of their nodes.
struct Disks([Vec<Held>; 1]);

impl Disks {
    /// Returns the PEs of a set whose data is not here.
    fn lack(&self, manifest: &Manifest) -> Vec<Pe> {
        match manifest.parity {
            Some(_) => choose::missing(&self.0, manifest),
            None => Vec::new(), // invalid if any of its files is missing
        }
    }
}

/// Describes a set. If the sets were verified, it is intact as far as its files are on these disks.
fn state(Listed { manifest, only_for }: &Listed, verified_on: Option<&Disks>) -> String {
    let missing = verified_on.map(|disks| disks.lack(manifest));
    match (only_for, missing.as_deref()) {
        (Some(set), _) => format!("  only for set {set}"),
        (None, None) => String::new(),
        (None, Some([])) => "  whole".to_owned(),
        (None, Some(missing)) => format!("  holds, without the files of {}", Pe::names(missing)),
    }
}

/// Names the node of a set, if it belongs to one.
fn of_node(set: &Set) -> String {
    set.node.map_or_else(String::new, |node| format!(" of node {node}"))
}

fn when(manifest: &Manifest) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(manifest.seconds));
    time.map_or_else(String::new, |time| humantime::format_rfc3339_seconds(time).to_string())
}

/// Describes the bytes of its files, and those they had if they were whole and not compressed.
fn sizes(manifest: &Manifest) -> String {
    let kind = if manifest.bases.is_empty() { "compressed from" } else { "instead of" };
    let raw = manifest.raw.map_or_else(String::new, |raw| format!(" {kind} {}", bytes(raw)));
    bytes(manifest.bytes()) + &raw
}

fn in_words(
    folder: &Path,
    sets: &[(Set, Result<Listed, String>)],
    done: &Done,
    verified_on: Option<&Disks>,
) -> String {
    let mut text = String::new();
    for number in &done.gone {
        let _ = writeln!(text, "set {number} deleted");
    }
    for Repair { set, made, failed } in &done.repairs {
        for path in made {
            let _ = writeln!(text, "set {set}  made again: {}", path.display());
        }
        if let Some(why) = failed {
            let _ = writeln!(text, "set {set}  not repaired: {why}");
        }
    }
    for (set, looked) in sets {
        let (number, node) = (set.number, of_node(set));
        let _ = match looked {
            Ok(found @ Listed { manifest, .. }) => writeln!(
                text,
                "set {number}{node}  checkpoint {}  {}  {} PEs  {}{}  {}",
                manifest.number,
                when(manifest),
                manifest.entries.len(),
                sizes(manifest),
                state(found, verified_on),
                manifest.program.escape_debug()
            ),
            Err(error) => writeln!(text, "set {number}{node}  not whole: {error}"),
        };
    }
    if sets.is_empty() {
        let _ = writeln!(text, "{}: no checkpoints", folder.display());
    }
    text
}

fn in_json(
    folder: &Path,
    sets: &[(Set, Result<Listed, String>)],
    done: &Done,
    disks: &Disks,
) -> serde_json::Value {
    let set = |(set, looked): &(Set, Result<Listed, String>)| match looked {
        Ok(Listed { manifest, only_for }) => json!({
            "set": set.number,
            "node": set.node,
            "folder": set.folder.display().to_string(),
            "checkpoint": manifest.number,
            "written": when(manifest),
            "pes": manifest.entries.len(),
            "heap": manifest.heap_len,
            "missing": disks.lack(manifest),
            "bytes": manifest.bytes(),
            "bases": manifest.bases,
            "only_for": only_for,
            "raw": manifest.raw.unwrap_or(manifest.bytes()),
            "mode": manifest.mode,
            "program": manifest.program,
        }),
        Err(error) => json!({
            "set": set.number,
            "node": set.node,
            "folder": set.folder.display().to_string(),
            "error": error,
        }),
    };
    let repair = |Repair { set, made, failed }: &Repair| {
        let made: Vec<String> = made.iter().map(|path| path.display().to_string()).collect();
        json!({ "set": set, "made": made, "error": failed.as_ref().map(ToString::to_string) })
    };
    let repairs: Vec<serde_json::Value> = done.repairs.iter().map(repair).collect();
    let sets: Vec<serde_json::Value> = sets.iter().map(set).collect();
    let (store, deleted) = (folder.display().to_string(), &done.gone);
    json!({
        "raidshmem_store": FORMAT,
        "store": store,
        "deleted": deleted,
        "repairs": repairs,
        "sets": sets,
    })
}
