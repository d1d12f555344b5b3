#!/bin/sh
# Makes Debian packages of what was built, in a copy of the tree, so that nothing is left in it.
#
# usage: packaging/deb.sh BUILT TARGET
#   BUILT   the folder of oshrun and libraidshmem.so; TARGET  where the packages are to lie
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
    include man packaging "$target/source"
cd "$target/source"
# -d: Rust may be here without a package of its own.
BUILT=$built dpkg-buildpackage --build=binary --no-sign --no-pre-clean -d
rm -r "$target/source"
