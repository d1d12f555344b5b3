#!/usr/bin/env bash
# Measures the benefit of restoring CPU bindings: the kernels of kernels.c with SHMEM_FT_AFFINITY
# alternately on and off, and a PE lost half-way. Needs a machine with idle cores; with fewer than
# PES * THREADS processors it prints a warning, and the figures are meaningless.
#
# usage: benches/affinity/run.sh [PES [THREADS [STEPS [ROUNDS]]]]      default 2 4 200 5
#
# Prints, for each kernel, the lost PE's time of a step after the loss relative to that before it:
# medians of the rounds. Needs oshcc and oshrun in PATH.
set -euo pipefail
cd "$(dirname "$0")"
pes=${1:-2} threads=${2:-4} steps=${3:-200} rounds=${4:-5}
have=$(nproc)
[ "$have" -ge $((pes * threads)) ] ||
    echo "run.sh: $have processors for $pes PEs of $threads threads: figures mean nothing here" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
oshcc -O2 -pthread -o "$folder/kernels" kernels.c
grep -m1 'model name' /proc/cpuinfo || true
for _ in $(seq "$rounds"); do
    for affinity in 1 0; do
        SHMEM_FT_AFFINITY=$affinity SHMEM_FT_BACKUP_MODE=raid5 oshrun -q -n "$pes" \
            --kill "$((pes - 1))@$((steps / 2))" "$folder/kernels" "$steps" "$threads" |
            awk -v pe="$((pes - 1))" -v on="$affinity" \
                '$1 == pe && $2 == "kernel" { print $3, on, $7 / $5 }' >> "$folder/ratios"
    done
done
for kernel in ep mg cg; do
    for affinity in 1 0; do
        grep "^$kernel $affinity " "$folder/ratios" | cut -d' ' -f3 | sort -n |
            awk -v kernel="$kernel" -v on="$affinity" '{ all[NR] = $1 }
                END { printf "%s affinity %d after/before %.3f\n", kernel, on, all[int((NR + 1) / 2)] }'
    done
done
