#!/usr/bin/env bash
# run.sh PYTHON HOST PORT WORK: starts PgBouncer in front of a server, checks, and stops it.
set -euo pipefail
python=$1 host=$2 port=$3 work=$4/pgbouncer
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../tests/services/common.sh"
bouncer=$(command -v pgbouncer || echo /usr/sbin/pgbouncer)
mkdir -p "$work"
listen=$(free_port)
cat >"$work/pgbouncer.ini" <<INI
[databases]
thalweg = host=$host port=$port user=pgbouncer dbname=thalweg
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $listen
unix_socket_dir =
auth_type = any
admin_users = pgbouncer
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
server_check_query = SELECT 1
server_check_delay = 0
logfile = $work/log
pidfile = $work/pid
INI
# It refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$work"
    chmod o+x "$4"
    as=(-u nobody)
fi
"$bouncer" -q "${as[@]}" "$work/pgbouncer.ini" 2>"$work/errors" &
bouncer=$!
stop() { kill "$bouncer" 2>/dev/null || true; wait "$bouncer" 2>/dev/null || true; }
trap stop EXIT
deadline=$((SECONDS + 20))
until answers "$listen"; do
    kill -0 "$bouncer" 2>/dev/null || { cat "$work/errors" "$work/log" >&2; exit 1; }
    [ "$SECONDS" -lt "$deadline" ] || { echo "PgBouncer did not start" >&2; exit 1; }
    sleep 0.05
done
"$python" "$here/check.py" 127.0.0.1 "$listen" || { tail -20 "$work/log" >&2; exit 1; }
