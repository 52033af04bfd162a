#!/usr/bin/env bash
# run.sh [wire|psql|python|node|java]...: starts a server and runs the checks with these clients, or with all of them.
# The Rust client's tests start their own server: cargo test --release -p thalweg-clients.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
bin=${THALWEG_BIN:-${CARGO_TARGET_DIR:-$here/../target}/release/thalweg}
cache=${THALWEG_SERVICES:-$HOME/.cache/thalweg/services}/clients
[ "$#" -gt 0 ] || set -- wire psql python node java
[ -x "$bin" ] || { echo "there is no server at $bin; build it with cargo build --release -p thalweg" >&2; exit 1; }
mkdir -p "$cache"

work=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-clients.XXXXXX")
: >"$work/log"
# The harness's own variables are no settings of the server.
env -u THALWEG_BIN -u THALWEG_TEST_KAFKA -u THALWEG_MOTO_SERVER -u THALWEG_SERVICES -u THALWEG_KAFKA -u THALWEG_MOTO \
    "$bin" serve --data-dir "$work/data" --pg-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --workers 2 2>"$work/log" &
server=$!
stop() {
    status=$?
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    [ "$status" = 0 ] || { echo "the server's last lines:" >&2; tail -30 "$work/log" >&2; }
    rm -rf "$work"
}
trap stop EXIT

port=
deadline=$((SECONDS + 60))
while [ -z "$port" ]; do
    port=$(sed -n 's/.*thalweg is ready.* -p \([0-9]*\).*/\1/p' "$work/log" | head -1)
    kill -0 "$server" 2>/dev/null || { echo "the server ended while starting" >&2; exit 1; }
    [ "$SECONDS" -lt "$deadline" ] || { echo "the server did not get ready" >&2; exit 1; }
    [ -n "$port" ] || sleep 0.1
done

run_wire() {
    python3 wire/check.py 127.0.0.1 "$port"
}

run_psql() {
    psql -X -h 127.0.0.1 -p "$port" -U psql -d thalweg -f psql/check.sql >"$work/psql.txt" 2>"$work/psql.err"|| { cat "$work/psql.err" >&2; return 1; }
    diff -u psql/expected.txt "$work/psql.txt" || return 1
    echo "psql $(psql --version | awk '{print $3}') ok"
}

run_python() {
    if [ ! -x "$cache/venv/bin/python" ]; then python3 -m venv "$cache/venv"; fi
    "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements.txt
    "$cache/venv/bin/python" python/check.py 127.0.0.1 "$port"
}

run_node() {
    mkdir -p "$cache/node"
    cp node/package.json node/check.js "$cache/node/"
    (cd "$cache/node" && npm install --silent --no-audit --no-fund && node check.js 127.0.0.1 "$port")
}

run_java() {
    local jar=/usr/share/java/postgresql.jar
    javac -d "$work/java" java/Check.java
    java -cp "$work/java:$jar" Check 127.0.0.1 "$port"
}

for client in "$@"; do
    "run_$client" || { echo "FAILED: $client" >&2; exit 1; }
done
