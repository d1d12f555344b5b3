#!/bin/sh
# Strips debug symbols from programs and libraries. `keep` puts them into .debug/ next to each file,
# where debuggers and the library's backtraces find them by the debug link that remains.
#
# usage: packaging/strip.sh keep|drop FILE...
set -eu
what=${1:-}
case $what in
keep | drop) shift ;;
*) echo "usage: packaging/strip.sh keep|drop FILE..." >&2; exit 2 ;;
esac

for file; do
    if [ "$what" = drop ]; then
        strip --strip-unneeded "$file"
        continue
    fi
    symbols=$(dirname "$file")/.debug/$(basename "$file").debug
    mkdir -p "$(dirname "$symbols")"
    objcopy --only-keep-debug "$file" "$symbols"
    chmod 644 "$symbols"
    strip --strip-unneeded "$file"
    objcopy --add-gnu-debuglink="$symbols" "$file"
done
