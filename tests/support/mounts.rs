//! Mounts that tests make, invisible to other processes.
//!
//! A job has its own mounts if the kernel allows that. Otherwise (in a chroot, for example), a
//! test's command that mounts would change the machine. So would a thread of a test, unless it has
//! left the machine's mounts.

use std::fs;
use std::io;
use std::path::Path;

/// The status of a shell that may not mount.
pub const NOT_ALONE: i32 = 9;

/// The mounts as a process sees them.
const LIST: &str = "/proc/thread-self/mountinfo";

/// Gives this thread, and all its later children, mounts that no other process sees. They end
/// with the last of these processes, even if they are killed.
///
/// # Errors
/// The kernel's error.
pub fn leave_the_machine() -> io::Result<()> {
    unshare(libc::CLONE_FS | libc::CLONE_NEWNS)?;
    let list = fs::read_to_string(LIST)?;
    if list.contains(" shared:") {
        return Err(io::Error::other("a mount is still shared"));
    }
    Ok(())
}

/// Leaves the namespaces in `flags`, the mounts' among them, and shares no mount any more. System
/// calls only.
pub(super) fn unshare(flags: libc::c_int) -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: affects only the calling thread, and its children.
    call(unsafe { libc::unshare(flags) })?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: no pointers except to C text; affects only the mounts of this thread.
    call(unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) })
}

/// Returns the result of a system call.
pub(super) fn call(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns shell commands that run only in a mount namespace other than that of this process, in
/// which no mount is shared with another. Otherwise the shell ends with [`NOT_ALONE`].
pub fn privately(commands: &str) -> String {
    let own = fs::read_link("/proc/self/ns/mnt").expect("mount namespaces");
    format!(
        "if [ \"$(readlink /proc/self/ns/mnt)\" = '{}' ] || grep -q ' shared:' \
         /proc/self/mountinfo; then exit {NOT_ALONE}; fi; {commands}",
        own.display()
    )
}

/// Returns a shell command that mounts `what` at `place`, which is not a link, and that fails
/// unless a new mount is there afterwards.
pub fn mount(what: &str, place: &Path) -> String {
    let place = place.display();
    let id = format!(
        "$(awk '$5 == \"{place}\" {{ id = $1 }} END {{ print id }}' /proc/thread-self/mountinfo)"
    );
    format!("{{ before={id}; mount {what} {place} && [ \"{id}\" != \"$before\" ]; }}")
}

/// Returns the number of the mount at `place`, which is not a link, as this thread sees it.
pub fn id(place: &Path) -> Option<u64> {
    id_in(&fs::read_to_string(LIST).ok()?, place.to_str()?)
}

fn id_in(list: &str, place: &str) -> Option<u64> {
    let fields = list.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut there = fields.filter(|fields| fields.get(4) == Some(&place));
    there.next_back()?.first()?.parse().ok()
}

#[test]
fn the_last_mount_at_a_place_counts() {
    let list = "36 35 98:0 / /mnt rw shared:1 - ext4 /dev/a rw\n\
                40 36 0:40 / /mnt/b rw - tmpfs none rw\n41 36 0:41 / /mnt rw - tmpfs none rw\n";
    assert_eq!((id_in(list, "/mnt"), id_in(list, "/mnt/b")), (Some(41), Some(40)));
    assert_eq!(id_in(list, "/"), None);
    assert!(id(Path::new("/proc")).is_some());
}
