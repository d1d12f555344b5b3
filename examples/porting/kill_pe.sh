#!/bin/sh
# Kills the process of a PE of a running job, as a crash would.
#
# usage: kill_pe.sh PE [JOB]     JOB is the process id of oshrun, if you run several jobs
set -eu
pid=$(oshrun --status ${2:-} | sed -n "s/^ *PE $1: process \([0-9]*\),.*/\1/p")
[ -n "$pid" ] || { echo "kill_pe.sh: PE $1 has no process" >&2; exit 1; }
kill -9 "$pid"
