#!/bin/sh
# Compares the parity codec with Intel's ISA-L by ratios of alternating runs: see
# codec/benches/isal.rs.
#
#   benches/peers/isal.sh [FILTER]      ROUNDS=n, RAIDSHMEM_KERNEL=name, ISAL=libisal.so
#
# Uses Debian's ISA-L (libisal2, 2.30) and then that of the Python package `isal` (2.32, with GFNI),
# which is built from source with nasm; or the one that ISAL names. Exits with 77, like a skipped
# test, if there is no ISA-L.
set -eu
cd "$(dirname "$0")/../.."
bench() {
    cargo bench --quiet --package raidshmem-codec --bench isal -- "$@"
}
if [ -n "${ISAL:-}" ]; then
    bench "$@"
    exit
fi
echo "ISA-L of the system"
bench "$@" && status=0 || status=$?
folder=${CARGO_TARGET_DIR:-target}/isal-1.9.1
source=$folder/src/isal/isa-l
if [ ! -e "$source/bin/libisal.so" ]; then
    pip download --quiet --no-deps --no-binary :all: --dest "${folder%/*}" isal==1.9.1 &&
        tar -xf "$folder.tar.gz" -C "${folder%/*}" &&
        make -s -C "$source" -f Makefile.unx units="erasure_code raid" slib > /dev/null || {
        echo "isal.sh: NOT RUN: no ISA-L 2.32 (it takes pip, make and nasm)" >&2
        exit "$status"
    }
fi
echo "ISA-L 2.32.1"
ISAL=$(realpath "$source/bin/libisal.so") && export ISAL
bench "$@"
