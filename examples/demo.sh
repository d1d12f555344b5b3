#!/usr/bin/env bash
# Runs Jacobi with the loss of a process and then a node; the result must equal that without losses.
#
# usage: examples/demo.sh RELEASE_FOLDER
#
# Called by `make demo`. BYTES and SWEEPS set the size of the problem (default: 64M and 4096 sweeps,
# or fewer if that would take more than a minute). Exits with status 1 if the bytes differ.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1
export PATH="$release:$PATH"
for name in "${!SHMEM_@}"; do unset "$name"; done

folder=$release/../demo
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ -t 1 ]; then
    bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' dim=$'\e[2m' plain=$'\e[0m'
else
    bold='' red='' green='' yellow='' dim='' plain=''
fi

title() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
command_line() { printf '%s%s%s\n' "$dim" "$1" "$plain"; }
sum() { sed -n 's/^jacobi checksum=\([0-9a-f]*\) .*/\1/p' "$1"; }

# Prints lines as they arrive, the important ones in colour.
show() {
    local line colour
    while IFS= read -r line; do
        case $line in
        *'was killed'* | *'was lost'* | *unrecoverable*) colour=$red ;;
        *died* | *substitute*) colour=$yellow ;;
        *adopted* | *rebuilt* | *resume*) colour=$green ;;
        *' of memory') continue ;; # the table below says it
        *) colour='' ;;
        esac
        printf '%s%s%s\n' "$colour" "$line" "${colour:+$plain}"
    done
}

oshcc -O3 -march=native -o "$folder/jacobi" examples/jacobi.c

# Every run makes 16 checkpoints. A short run estimates the time of two long ones.
bytes=${BYTES:-64M} sweeps=${SWEEPS:-}
if [ -z "$sweeps" ]; then
    oshrun -n 4 "$folder/jacobi" --bytes "$bytes" --sweeps 128 --halo 64 > "$folder/out"
    sweeps=$(sed -n 's/.* seconds=//p' "$folder/out" | awk '
        { for (n = 4096; n > 256 && 2 * $1 * n / 128 > 40; n /= 2); print n }')
fi
halo=$((sweeps < 16 ? 1 : sweeps / 16))
size=(--bytes "$bytes" --sweeps "$sweeps" --halo "$halo")

title "1. A Jacobi iteration on $bytes of cells, $sweeps sweeps, 4 PEs; no checkpoints, no fault"
command_line "\$ oshrun -n 4 jacobi ${size[*]}"
oshrun -n 4 "$folder/jacobi" "${size[@]}" 2>&1 | tee "$folder/reference" | show
expected=$(sum "$folder/reference")

title "2. The same on 4 nodes under raid5: process 1 dies after checkpoint 5, node 2 after 10"
command_line "\$ SHMEM_FT_BACKUP_MODE=raid5 oshrun -v -n 4 --nodes 4 --spares 1 \\"
command_line "    --kill 1@5 --kill-node 2@10 jacobi ${size[*]}"
SHMEM_FT_BACKUP_MODE=raid5 oshrun -v -n 4 --nodes 4 --spares 1 --kill 1@5 --kill-node 2@10 \
    "$folder/jacobi" "${size[@]}" 2>&1 | tee "$folder/faults" | show

got=$(sum "$folder/faults")
lost=$(grep -cE 'PE 1 was killed|node 2 was lost' "$folder/faults" || true)
if [ -z "$expected" ] || [ "$got" != "$expected" ] || [ "$lost" != 2 ]; then
    printf '\n%sexpected %s after two losses, got %s after %s%s\n' \
        "$red" "${expected:-no checksum}" "${got:-no checksum}" "$lost" "$plain"
    exit 1
fi
printf '\n%ssame bytes as the run without a fault (%s)%s\n' "$green$bold" "$got" "$plain"

# The losses that a group of eight survives, in the words of README.md.
declare -A survives=(
    [none]='nothing'
    [single]='a process, no node; not while a checkpoint is written'
    [double]='1 process or node; not while a checkpoint is written'
    [raid5]='1 process or node, at any moment'
    [rs]='2 processes or nodes, at any moment'
)
title "3. Memory of a PE by mode, measured in the processes: $bytes over 8 PEs on 8 nodes"
printf '%-8s %10s %8s   %s\n' mode 'MiB a PE' 'to none' 'what may be lost'
for mode in none single double raid5 rs; do
    SHMEM_FT_BACKUP_MODE=$mode oshrun -v -n 8 --nodes 8 \
        "$folder/jacobi" --bytes "$bytes" --sweeps 64 --halo 32 > "$folder/out" 2>&1 ||
        { cat "$folder/out"; exit 1; }
    mean=$(awk '/MiB of memory$/ { sum += $4; n++ } END { if (n != 8) exit 1; print sum / n }' \
        "$folder/out")
    [ "$mode" = none ] && none=$mean
    ratio=$(awk -v mean="$mean" -v none="$none" 'BEGIN { printf "%.2f", mean / none }')
    printf '%-8s %10.1f %8s   %s\n' "$mode" "$mean" "$ratio" "${survives[$mode]}"
done
