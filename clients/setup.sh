#!/usr/bin/env bash
# setup.sh [CLIENT]...: installs the drivers and tools that these clients' checks need, unless they are there. Debian's packages are
# installed by tests/setup.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
. ../tests/services/common.sh
cache=$SERVICES_ROOT/clients
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9

# newest FILE STAMP: whether what the file asks for was installed.
newest() { cmp -s "$1" "$2"; }

# All drivers for Python stand in one environment.
python_drivers() {
    if newest python/requirements.txt "$cache/venv/.installed"; then return; fi
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv
    say "installing drivers for Python"
    rm -rf "$cache/venv"
    python3 -m venv "$cache/venv"
    "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements.txt
    cp python/requirements.txt "$cache/venv/.installed"
}

# node_drivers NAME: the packages that a check for Node names.
node_drivers() {
    if newest "$1/package.json" "$cache/$1/.installed"; then return; fi
    mkdir -p "$cache/$1"
    cp "$1/package.json" "$cache/$1/"
    (cd "$cache/$1" && npm install --silent --no-audit --no-fund)
    cp "$1/package.json" "$cache/$1/.installed"
}

go_check() {
    local go
    go=$(command -v go || echo /usr/local/go/bin/go)
    [ -x "$go" ] || die "go is missing: install Go 1.23 or later from https://go.dev"
    mkdir -p "$cache/go"
    (cd go && "$go" test -c -o "$cache/go/check" .)
}

sqlx_check() { (cd sqlx && CARGO_TARGET_DIR=$cache/sqlx cargo build --quiet --locked); }

[ "$#" -gt 0 ] || set -- python node postgresjs go sqlx
for client in "$@"; do
    case $client in
        python | psycopg2 | asyncpg | sqlalchemy | django | dbt | pgcli | adbc | odbc | pgbouncer) python_drivers ;;
        node | postgresjs) node_drivers "$client" ;;
        go) go_check ;;
        sqlx) sqlx_check ;;
    esac
done
