#!/usr/bin/env bash
# Makes a guest's boot files: Debian's kernel and archives for its memory disk.
#
# usage: image.sh base FOLDER            FOLDER/vmlinuz and FOLDER/base.cpio, if they do not exist
#        image.sh add FOLDER OUT PATH... OUT: an archive of PATHs with the libraries they need, each
#                                        at its own path; boots after FOLDER/base.cpio
#
# Packages are downloaded and unpacked in FOLDER; nothing is installed and root is not needed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mkdir -p "$2" && cd "$2" && pwd)
root=$folder/root
libraries=usr/lib/x86_64-linux-gnu

fail() { echo "image: $*" >&2; exit 1; }

# Lists the libraries that `ldd` finds for each program, in the unpacked packages first.
needed() {
    LD_LIBRARY_PATH="$root/$libraries:$root/lib/x86_64-linux-gnu" ldd "$@" 2> /dev/null |
        sed -n 's/^[^/:]*\(\/[^ :]*\) (0x.*/\1/p' | sort -u
}

# Copies a file to the path at which the guest looks for it.
place() { # tree, file...
    local tree=$1 file to
    shift
    for file in "$@"; do
        to=$tree/${file#"$root"}
        mkdir -p "$(dirname "$to")"
        cp -L "$file" "$to"
    done
}

archive() { # tree, out
    (cd "$1" && find . -mindepth 1 | "$root/bin/busybox" cpio -o -H newc 2> /dev/null) > "$2.new"
    mv "$2.new" "$2"
}

download() {
    local kernel
    kernel=$(apt-cache depends linux-image-amd64 2> /dev/null | sed -n 's/^ *Depends: //p')
    [ -n "$kernel" ] || fail "apt-cache knows no linux-image-amd64: run apt-get update"
    mkdir -p "$folder/packages"
    (cd "$folder/packages" && apt-get -q -o APT::Sandbox::User=root download "$kernel" \
        busybox-static iproute2 ibverbs-utils perftest ibverbs-providers libibverbs1 librdmacm1 \
        libibumad3 libpci3 libnl-3-200 libnl-route-3-200 libmnl0 libbsd0 libmd0 libcap2 \
        > "$folder/download.log" 2>&1) || fail "packages: $(tail -n1 "$folder/download.log")"
    rm -rf "$root"
    for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
}

# Lists the kernel's modules with all they need, in the order in which they can be loaded.
modules() {
    local version wanted line
    version=$(ls "$root/lib/modules")
    "$root/bin/busybox" depmod -b "$root" "$version" 2> /dev/null
    for wanted in virtio_pci virtio_net virtio_console crc32_generic ib_uverbs rdma_ucm rdma_rxe; do
        line=$(grep "/$wanted.ko:" "$root/lib/modules/$version/modules.dep") || continue
        tr ' ' '\n' <<< "${line//:/}" | grep . | tac
    done | awk -v at="/lib/modules/$version/" '!seen[$0]++ { print at $0 }'
}

base() {
    local tree=$folder/tree stamp
    stamp=$(cat "$here/image.sh" "$here/init" | sha256sum)
    if [ "$(cat "$folder/stamp" 2> /dev/null)" = "$stamp" ]; then return; fi
    rm -rf "$tree" "$folder/stamp"
    [ -e "$root/bin/busybox" ] || download
    mkdir -p "$tree"/{bin,dev,etc/libibverbs.d,proc,sys,tmp,lib,root}
    cp "$root/bin/busybox" "$tree/bin/busybox"
    cp "$here/init" "$tree/init"
    chmod 755 "$tree/init"
    printf '%s\n' root:x:0:0:root:/root:/bin/sh nobody:x:65534:65534::/:/bin/sh \
        > "$tree/etc/passwd"
    # Any other name makes libibverbs look for a provider that is not in the guest.
    echo 'driver rxe' > "$tree/etc/libibverbs.d/rxe.driver"
    modules > "$tree/lib/order"
    local files=()
    mapfile -t files < <(sed "s|^|$root|" "$tree/lib/order"
        ls "$root"/usr/bin/{rdma,ibv_devinfo,ibv_rc_pingpong,ib_write_bw,ib_write_lat} \
            "$root"/usr/bin/{ib_read_bw,ib_read_lat} "$root/$libraries"/libibverbs/librxe-*.so)
    place "$tree" "${files[@]}"
    mapfile -t files < <(needed "${files[@]}")
    place "$tree" "${files[@]}"
    cp "$root"/boot/vmlinuz-* "$folder/vmlinuz"
    archive "$tree" "$folder/base.cpio"
    echo "$stamp" > "$folder/stamp"
}

add() {
    local out=$1 tree=$1.tree files=()
    shift
    rm -rf "$tree"
    mkdir -p "$tree"
    place "$tree" "$@"
    mapfile -t files < <(needed "$@")
    place "$tree" "${files[@]}"
    # A guest's disk is half of its memory; debug information would fill it.
    find "$tree" -type f -exec strip --strip-debug {} + 2> /dev/null || true
    archive "$tree" "$out"
    rm -rf "$tree"
}

case $1 in
base) base ;;
add) add "${@:3}" ;;
*) fail "base or add?" ;;
esac
