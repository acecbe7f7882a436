#!/bin/sh
# Print the home folder of a Java that PySpark 4.3 can use: 17 or newer, with the module jdk.incubator.vector.
# JAVA_HOME is tried first, then PATH. If there is no such Java, Debian's package is installed, provided that this user is root. The package
# has a compiler, which the tests need for small Java programs.
set -eu

PACKAGE=openjdk-17-jdk-headless

serves() {
    [ -x "$1" ] || return 1
    major=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ] && "$1" --list-modules 2>/dev/null | grep -q '^jdk\.incubator\.vector'
}

home_of() {
    dirname "$(dirname "$(readlink -f "$1")")"
}

find_java() {
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        if serves "$java"; then
            home_of "$java"
            return 0
        fi
    done
    return 1
}

install_java() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "Installing $PACKAGE ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2 && apt-get install -q -y --no-install-recommends "$PACKAGE" >&2
}

find_java || { install_java && find_java; } || {
    echo "PySpark needs Java 17 or newer with the module jdk.incubator.vector, and neither JAVA_HOME nor PATH has one: install $PACKAGE (Debian, Ubuntu), java-17-openjdk-headless (Fedora) or openjdk@17 (Homebrew)." >&2
    exit 1
}
