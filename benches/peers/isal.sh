#!/bin/sh
# The parity codec beside Intel's ISA-L, as ratios of runs in turns: see codec/benches/isal.rs.
#
#   benches/peers/isal.sh [FILTER]      ROUNDS=n, RAIDSHMEM_KERNEL=name
#
# Needs libisal (Debian: libisal-dev); ends with 77, as a skipped test does, if it is missing.
set -eu
cd "$(dirname "$0")/../.."
if ! printf '#include <isa-l.h>\nint main(void) { return !xor_gen; }\n' |
    "${CC:-cc}" -x c - -o /dev/null -lisal 2>/dev/null; then
    echo "isal.sh: NOT RUN: no ISA-L to link with (Debian: apt-get install libisal-dev)" >&2
    exit 77
fi
exec cargo bench --quiet --package raidshmem-codec --features isal --bench isal -- "$@"
