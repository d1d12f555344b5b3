#!/bin/sh
# Takes the symbols for debuggers out of programs and libraries, into .debug/ beside each, where
# debuggers and the backtraces of the library look for them by the name that is left behind.
#
# usage: packaging/strip.sh FILE...
set -eu

for file; do
    symbols=$(dirname "$file")/.debug/$(basename "$file").debug
    mkdir -p "$(dirname "$symbols")"
    objcopy --only-keep-debug "$file" "$symbols"
    chmod 644 "$symbols"
    strip --strip-unneeded "$file"
    objcopy --add-gnu-debuglink="$symbols" "$file"
done
