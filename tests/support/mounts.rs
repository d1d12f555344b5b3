//! Mounts that tests make: only where nobody else sees them.
//!
//! A job has mounts of its own where the kernel allows that. Where it does not (in a chroot, say),
//! a command of a test that mounts would change the machine.

use std::path::Path;

/// Status of a shell that may not mount.
pub const NOT_ALONE: i32 = 9;

/// Commands of a shell that it does only in a mount namespace other than that of this process, in
/// which no mount is shared with another. Else it ends with [`NOT_ALONE`].
pub fn privately(commands: &str) -> String {
    let own = std::fs::read_link("/proc/self/ns/mnt").expect("mount namespaces");
    format!(
        "if [ \"$(readlink /proc/self/ns/mnt)\" = '{}' ] || grep -q ' shared:' \
         /proc/self/mountinfo; then exit {NOT_ALONE}; fi; {commands}",
        own.display()
    )
}

/// A condition of a shell: another file system is mounted at `folder` than the one around it.
pub fn is_mounted(folder: &Path) -> String {
    format!("[ \"$(stat -c %d {0})\" != \"$(stat -c %d {0}/..)\" ]", folder.display())
}
