//! The Debian packages as a newcomer uses them: a bare Debian, three packages, and a program of
//! one's own that survives a death.
//!
//! The packages hold the programs built with this test. The machine is a folder that mmdebstrap
//! fills from Debian's archive, and that is removed when the test ends. Left out: releases other
//! than the one that this machine runs, because programs are bound to its C library.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[path = "support/built.rs"]
mod built;
#[path = "support/skip.rs"]
mod skip;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PACKAGES: [&str; 3] = ["libraidshmem0", "libraidshmem-dev", "raidshmem"];

/// The commands for the bare machine; `$1` is its folder.
const NEWCOMER: &str = r#"#!/bin/sh
set -e
DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get install -qy --no-install-recommends \
    /packages/libraidshmem0.deb /packages/libraidshmem-dev.deb /packages/raidshmem.deb
chroot "$1" sh -ec '
    cd /root
    cp /usr/share/doc/libraidshmem-dev/examples/count.c .
    oshcc -O2 -Wall -Werror -o count count.c
    ldd count
    oshrun -n 4 --mode raid5 --nodes 4 --kill-node 1@3 ./count
    oshinfo --version
    apt-get purge -qy libraidshmem0 libraidshmem-dev raidshmem
    test ! -e /usr/bin/oshcc
    ! find /usr /etc -name "*raidshmem*" -o -name "shmem*.h" | grep .'
"#;

/// Runs a command to its end and returns whether it succeeded, and its output.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// Returns the release of Debian that this machine runs.
fn release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Some(line?.trim_matches('"').to_owned())
    };
    value("ID").filter(|id| id == "debian").and(value("VERSION_CODENAME"))
}

/// Returns the reason why this machine cannot create another one.
fn obstacle() -> Option<&'static str> {
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    match () {
        () if !rustix::process::getuid().is_root() => Some("not root"),
        () if release().is_none() => Some("this is no Debian"),
        () if !there("mmdebstrap") || !there("dh_strip") => Some("no mmdebstrap or no debhelper"),
        () if !archive() => Some("Debian's archive does not answer"),
        () => None,
    }
}

/// True if apt can download a package, a small one.
fn archive() -> bool {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archive");
    fs::create_dir_all(&folder).expect("a folder below the target folder");
    let brought =
        run(Command::new("apt-get").args(["-qq", "download", "hostname"]).current_dir(&folder));
    fs::remove_dir_all(folder).expect("it was just made");
    brought.0
}

#[test]
fn a_bare_debian_runs_a_program_that_survives() {
    if let Some(reason) = obstacle() {
        return skip::skip("debian-archive", reason);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deb");
    let _ = fs::remove_dir_all(&folder); // it may not exist
    let packages = folder.join("packages");
    let (well, said) = run(Command::new(Path::new(ROOT).join("packaging/deb.sh"))
        .arg(built::gather(&folder))
        .arg(&packages)
        .env("DEB_BUILD_OPTIONS", "noautodbgsym"));
    assert!(well, "{said}");
    let machine = packages.join("machine");
    fs::create_dir_all(&machine).expect("a folder below the target folder");
    for package in PACKAGES {
        let of = format!("{package}_{}_", env!("CARGO_PKG_VERSION"));
        let mut files = fs::read_dir(&packages).expect("just made").flatten();
        let found = files.find(|file| file.file_name().to_string_lossy().starts_with(&of));
        let found = found.unwrap_or_else(|| panic!("no {package}: {said}")).path();
        fs::rename(found, machine.join(format!("{package}.deb"))).expect("in one folder");
    }
    let script = folder.join("newcomer.sh");
    fs::write(&script, NEWCOMER).expect("a file below the target folder");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it was just written");
    let copy = format!("sync-in {} /packages", machine.display());
    let begun = Instant::now();
    let (well, said) = run(Command::new("mmdebstrap")
        .args(["--quiet", "--variant=apt", "--format=null"])
        .args(["--customize-hook=mkdir \"$1/packages\"", &format!("--customize-hook={copy}")])
        .arg(format!("--customize-hook={}", script.display()))
        .args([&release().expect("it was asked for"), "/dev/null"])
        .env_remove("LD_LIBRARY_PATH"));
    assert!(well, "{said}");
    assert!(said.contains("libraidshmem.so.0 => /usr/lib/"), "{said}");
    assert!(said.lines().any(|line| line.trim() == "sum 760"), "{said}");
    assert!(said.contains(concat!("oshinfo ", env!("CARGO_PKG_VERSION"))), "{said}");
    let took = begun.elapsed();
    println!("from nothing to a program that survived: {:.0} s", took.as_secs_f64());
    fs::remove_dir_all(folder).expect("it was just made");
}
