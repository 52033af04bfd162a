#!/usr/bin/env bash
# setup.sh PART...: installs what is missing for a part, or says what to install. Parts: build, psql, services, clients, guard.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/services/common.sh"

# need PROGRAM PACKAGE...: the packages, unless the program is there.
need() {
    local program=$1
    shift
    command -v "$program" >/dev/null || packages+=("$@")
}

has_libclang() {
    local folder
    for folder in /usr/lib/llvm-*/lib /usr/lib/*-linux-*; do
        if compgen -G "$folder/libclang.so*" >/dev/null || compgen -G "$folder/libclang-[0-9]*.so*" >/dev/null; then return 0; fi
    done
    return 1
}

packages=()
for part in "$@"; do
    case $part in
        build)
            need cc build-essential
            need c++ build-essential
            need cmake cmake
            need pkg-config pkg-config
            need make make
            # RocksDB's bindings are made by libclang as the build goes. Its C++ interface, libclang-cpp, does not do.
            has_libclang || packages+=(clang libclang-dev)
            # Kafka's client links zlib.
            [ -e /usr/include/zlib.h ] || packages+=(zlib1g-dev)
            ;;
        guard) need valgrind valgrind ;;
        psql) need psql postgresql-client ;;
        services) need java openjdk-17-jre-headless; need mvn maven; need flock util-linux; need curl curl ;;
        clients)
            need psql postgresql-client
            need node nodejs
            need npm npm
            need javac openjdk-17-jdk-headless
            [ -e /usr/share/java/postgresql.jar ] || packages+=(libpostgresql-jdbc-java)
            [ -x /usr/sbin/pgbouncer ] || packages+=(pgbouncer)
            compgen -G '/usr/lib/*/odbc/psqlodbcw.so' >/dev/null || packages+=(odbc-postgresql unixodbc)
            ;;
        *) die "there is no part $part" ;;
    esac
done

wanted=()
for package in "${packages[@]}"; do
    [ -z "$package" ] || [[ " ${wanted[*]-} " == *" $package "* ]] || wanted+=("$package")
done
if [ "${#wanted[@]}" -gt 0 ]; then apt_install "${wanted[@]}"; fi

command -v cargo >/dev/null || die "cargo is missing: install Rust 1.95 or later from https://rustup.rs"

for part in "$@"; do
    if [ "$part" = services ]; then
        "$here/services/install-kafka.sh"
        "$here/services/install-moto.sh"
    fi
    if [ "$part" = clients ]; then "$here/../clients/setup.sh"; fi
done
