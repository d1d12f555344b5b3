#!/bin/sh
# Makes Debian packages from a finished build, in a copy of the tree, so that the tree stays clean.
#
# usage: packaging/deb.sh BUILT TARGET
#   BUILT   the folder of oshrun and libraidshmem.so; TARGET  the folder for the packages
set -eu
[ $# = 2 ] || { echo "usage: packaging/deb.sh BUILT TARGET" >&2; exit 2; }
command -v dh > /dev/null || {
    echo "packaging/deb.sh: dh is missing: apt-get install debhelper" >&2
    exit 1
}

built=$(realpath "$1")
mkdir -p "$2"
target=$(realpath "$2")
cd "$(dirname "$0")/.."

rm -rf "$target/source"
mkdir "$target/source"
cp -r Cargo.toml Makefile README.md CHANGELOG.md LICENSE-* ./*.in build.rs debian docs examples \
    include man monitoring packaging "$target/source"
cd "$target/source"
# -d: Rust may be installed without a Debian package.
BUILT=$built dpkg-buildpackage --build=binary --no-sign --no-pre-clean -d
rm -r "$target/source"
