#!/bin/sh
# Takes the symbols for debuggers out of programs and libraries. `keep` puts them into .debug/
# beside each, where debuggers and the backtraces of the library look for them by the name that is
# left behind.
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
