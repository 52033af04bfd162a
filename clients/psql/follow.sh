#!/usr/bin/env bash
# follow.sh HOST PORT: a psql prints a view's changes as they happen, while another one makes them.
set -euo pipefail
sql() { psql -X -q -h "$host" -p "$port" -U psql -d thalweg -v ON_ERROR_STOP=1 "$@"; }
host=$1 port=$2
sql -c "DROP TABLE IF EXISTS followed CASCADE" 2>/dev/null
sql -c "CREATE TABLE followed (id int PRIMARY KEY)"
sql -c "CREATE MATERIALIZED VIEW followed_count AS SELECT count(*) AS n FROM followed"
# Into a pipe, psql would keep its lines until there are many.
coproc feed { exec stdbuf -oL psql -X -q -h "$host" -p "$port" -U psql -d thalweg -c "COPY (SUBSCRIBE TO followed_count) TO STDOUT"; }
# Once the feed has ended, bash forgets its variables.
feed_process=$feed_PID
for n in 0 1 2 3; do
    [ "$n" = 0 ] || sql -c "INSERT INTO followed VALUES ($n)"
    while IFS=$'\t' read -r -t 20 _ weight count <&"${feed[0]}"; do
        [ "$weight $count" != "1 $n" ] || break
    done
    [ "$weight $count" = "1 $n" ] || { echo "psql: the count $n did not arrive" >&2; exit 1; }
done
kill "$feed_process"
wait "$feed_process" 2>/dev/null || true
sql -c "DROP TABLE followed CASCADE" 2>/dev/null
