//! The boot files of guests, made by `image.sh`: once, and kept in the target folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Returns the folder of the boot files.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        script(&["base".as_ref(), &folder]);
        folder
    })
}

/// Runs the script, one at a time: two tests may ask for the same archive.
fn script(words: &[&Path]) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/image.sh");
    let status = Command::new(script).args(words).status().expect("image.sh runs");
    assert!(status.success(), "image.sh {words:?}");
}

/// Returns the kernel.
pub fn kernel() -> PathBuf {
    folder().join("vmlinuz")
}

/// Makes an archive of `files` with the libraries that they need, each at its path here.
pub fn add(name: &str, files: &[&Path]) -> PathBuf {
    let out = folder().join(name).with_extension("cpio");
    script(&[&["add".as_ref(), folder(), &out], files].concat());
    out
}

/// Makes the memory disk of one guest: the common part, and `more`.
pub fn join(to: &Path, more: Option<&Path>) {
    let mut disk = File::create(to).expect("a file in the folder of the guests");
    for part in std::iter::once(folder().join("base.cpio")).chain(more.map(Path::to_owned)) {
        let mut part = File::open(&part).unwrap_or_else(|e| panic!("{}: {e}", part.display()));
        std::io::copy(&mut part, &mut disk).expect("a memory disk");
    }
}
