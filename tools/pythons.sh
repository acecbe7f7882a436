#!/bin/sh
# Unpack versions of Python from releases of Debian: tools/pythons.sh FOLDER bookworm=3.11 sid=3.13,3.14
#
# FOLDER/x86_64-sid/usr/bin/python3.14 runs as it is and has its headers, so that wheels can be built for it. FOLDER/aarch64-sid/usr/bin/python3.14
# runs under qemu-user, to try wheels for ARM. Packages are unpacked but not configured: these are not systems to boot or to chroot into.
# Needs Debian or Ubuntu on x86-64, and root.
set -eu

PACKAGES="debootstrap patchelf qemu-user-static"

install_tools() {
    command -v debootstrap >/dev/null && command -v patchelf >/dev/null && command -v qemu-aarch64-static >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
        echo "Versions of Python are unpacked by root, with these packages of Debian: $PACKAGES" >&2
        return 1
    }
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    apt-get update -q >&2 && apt-get install -q -y --no-install-recommends $PACKAGES >&2
}

unpack() { # release, Debian's name of the architecture, folder, packages
    echo "Unpacking Python from $1 for $2 ..." >&2
    rm -rf "$3"
    debootstrap --foreign --variant=minbase --arch="$2" --include="$4" "$1" "$3" >"$3.log" || {
        tail -n 20 "$3.log" >&2
        return 1
    }
    for package in "$3"/var/cache/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$3"
        rm "$package"
    done
}

# An interpreter of another release needs the C library that comes with it. Debian's pyconfig.h includes the one of the architecture, from a
# folder that a compiler of this machine does not search.
relocate() { # folder, version
    patchelf --set-interpreter "$1/lib64/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$1/usr/lib/x86_64-linux-gnu" "$1/usr/bin/python$2"
    cp --remove-destination "$1/usr/include/x86_64-linux-gnu/python$2/pyconfig.h" "$1/usr/include/python$2/"
    "$1/usr/bin/python$2" -c 'import ssl, sys; print(sys.version)' >&2
}

folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
install_tools
for wanted; do
    release=${wanted%%=*}
    versions=$(echo "${wanted#*=}" | tr , ' ')
    programs=
    headers=
    for version in $versions; do
        programs="$programs,python$version"
        headers="$headers,libpython$version-dev"
    done
    unpack "$release" amd64 "$folder/x86_64-$release" "${programs#,}$headers"
    unpack "$release" arm64 "$folder/aarch64-$release" "${programs#,}"
    for version in $versions; do
        relocate "$folder/x86_64-$release" "$version"
    done
done
