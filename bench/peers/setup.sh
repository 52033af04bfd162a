#!/usr/bin/env bash
# setup.sh [ENGINE...]: installs the engines that Thalweg is measured beside, unless they are there: flink, duckdb, datafusion.
# Each has a Python environment of its own, in $XDG_CACHE_HOME (or ~/.cache)/thalweg/peers, about 1.5 GB together.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tests/services/common.sh"

root=${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/peers
mkdir -p "$root"
exec 9>"$root/.lock"
flock 9

# environment NAME PACKAGE...: a Python environment with these packages, unless it is there with just these.
environment() {
    local folder=$root/$1 wanted
    shift
    wanted=$*
    if [ "$(cat "$folder/.installed" 2>/dev/null || true)" = "$wanted" ]; then return; fi
    # Debian splits the part that a new environment needs off from python3.
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv
    rm -rf "$folder"
    python3 -m venv "$folder"
    say "installing $wanted into $folder"
    # setuptools first and by itself: old packages that Flink's needs are built with what is there.
    if [[ $1 == setuptools* ]]; then install "$folder" "$1" wheel; shift; fi
    install "$folder" "$@"
    echo "$wanted" >"$folder/.installed"
}

install() {
    "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}" >&2 || die "pip could not install ${*:2}"
}

java_version() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1; }

# Flink 2 runs on Java 11 to 21; what its lookup table is compiled with must not be newer than what runs it.
need_java() {
    if ! command -v javac >/dev/null || ! command -v java >/dev/null; then apt_install openjdk-17-jdk-headless; fi
    local version
    version=$(java_version)
    if [ -z "$version" ] || [ "$version" -lt 17 ]; then die "Flink needs Java 17 or later; the java on the PATH is ${version:-none}"; fi
}

# The table that q13 looks up: Flink has no connector that holds one in memory.
lookup_table() {
    local source=$here/SideInput.java jar=$root/side-input.jar lib
    if [ -e "$jar" ] && [ "$jar" -nt "$source" ]; then return; fi
    lib=$("$root/flink/bin/python" -c 'import os, pyflink; print(os.path.join(os.path.dirname(pyflink.__file__), "lib"))')
    classes=$(mktemp -d "$root/.classes.XXXXXX")
    trap 'rm -rf "$classes"' EXIT
    javac -nowarn --release 17 -cp "$lib/*" -d "$classes" "$source" || die "javac could not compile $source"
    mkdir -p "$classes/META-INF/services"
    echo SideInput >"$classes/META-INF/services/org.apache.flink.table.factories.Factory"
    jar cf "$jar.new" -C "$classes" .
    mv "$jar.new" "$jar"
}

if [ "$#" = 0 ]; then set -- flink duckdb datafusion; fi
for engine in "$@"; do
    case $engine in
        flink)
            need_java
            environment flink 'setuptools<81' apache-flink==2.3.0
            lookup_table
            ;;
        duckdb) environment duckdb duckdb==2.0.1 pyarrow==26.0.1 ;;
        datafusion) environment datafusion datafusion==55.0.0 pyarrow==26.0.1 ;;
        *) die "there is no engine $engine" ;;
    esac
done
