#!/usr/bin/env bash
# run.sh [CLIENT]...: starts a server and runs the checks with these clients, or with all of them. setup.sh installs what they need.
# The Rust client's tests start their own server: cargo test --release -p thalweg-clients.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
bin=${THALWEG_BIN:-${CARGO_TARGET_DIR:-$here/../target}/release/thalweg}
cache=${THALWEG_SERVICES:-$HOME/.cache/thalweg/services}/clients
all=(wire psql python psycopg2 asyncpg sqlalchemy django dbt pgcli adbc odbc pgbouncer node postgresjs go sqlx java)
[ "$#" -gt 0 ] || set -- "${all[@]}"
[ -x "$bin" ] || { echo "there is no server at $bin; build it with cargo build --release -p thalweg" >&2; exit 1; }
./setup.sh "$@"

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

host=127.0.0.1
port=
deadline=$((SECONDS + 60))
while [ -z "$port" ]; do
    port=$(sed -n 's/.*thalweg is ready.* -p \([0-9]*\).*/\1/p' "$work/log" | head -1)
    kill -0 "$server" 2>/dev/null || { echo "the server ended while starting" >&2; exit 1; }
    [ "$SECONDS" -lt "$deadline" ] || { echo "the server did not get ready" >&2; exit 1; }
    [ -n "$port" ] || sleep 0.1
done

# A check that waits for what never comes is ended, and fails.
limited() { timeout --kill-after 5 "${CLIENT_TIMEOUT_S:-180}" "$@"; }

# with_python NAME: runs a check in Python, with the drivers that setup.sh installed.
with_python() { limited "$cache/venv/bin/python" "$1/check.py" "$host" "$port" "${@:2}"; }

run_wire() { limited python3 wire/check.py "$host" "$port"; }

run_psql() {
    psql -X -h "$host" -p "$port" -U psql -d thalweg -f psql/check.sql >"$work/psql.txt" 2>"$work/psql.err" || { cat "$work/psql.err" >&2; return 1; }
    diff -u psql/expected.txt "$work/psql.txt" || return 1
    limited psql/follow.sh "$host" "$port" || return 1
    echo "psql $(psql --version | awk '{print $3}') ok"
}

run_python() { with_python python; }
run_psycopg2() { with_python psycopg2; }
run_asyncpg() { with_python asyncpg; }
run_sqlalchemy() { with_python sqlalchemy; }
run_django() { with_python django; }
run_pgcli() { with_python pgcli; }
run_adbc() { with_python adbc; }
run_odbc() { with_python odbc "$(find /usr/lib -name psqlodbcw.so | head -1)"; }
run_dbt() { mkdir -p "$work/dbt" && limited dbt/check.sh "$cache/venv/bin/dbt" "$host" "$port" "$work/dbt"; }
run_pgbouncer() { limited pgbouncer/run.sh "$cache/venv/bin/python" "$host" "$port" "$work"; }

run_node() { cp node/check.js "$cache/node/" && limited node "$cache/node/check.js" "$host" "$port"; }
run_postgresjs() { cp postgresjs/check.mjs "$cache/postgresjs/" && limited node "$cache/postgresjs/check.mjs" "$host" "$port"; }

run_go() {
    (cd go && THALWEG_URL="postgres://go@$host:$port/thalweg?sslmode=disable" limited "$cache/go/check" -test.timeout 150s >"$work/go.txt") \
        || { cat "$work/go.txt" >&2; return 1; }
    echo "pgx $(sed -n 's/^require .*pgx[^ ]* v//p' go/go.mod) ok"
}

run_sqlx() { limited "$cache/sqlx/debug/thalweg-client-sqlx" "postgres://sqlx@$host:$port/thalweg"; }

run_java() {
    javac -d "$work/java" java/Check.java
    limited java -cp "$work/java:/usr/share/java/postgresql.jar" Check "$host" "$port"
}

for client in "$@"; do
    began=$SECONDS
    "run_$client" || { echo "FAILED: $client" >&2; exit 1; }
    [ "$((SECONDS - began))" -lt 30 ] || echo "$client took $((SECONDS - began)) s"
done
