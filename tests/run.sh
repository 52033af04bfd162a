#!/usr/bin/env bash
# run.sh BIN DATA PG HTTP: starts the server, loads the demo into a new data directory, says how to connect, and stays until Ctrl-C.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$1 data=$2 pg=$3 http=$4
port=${pg##*:}
new=yes
if [ -e "$data" ] && [ -n "$(ls -A "$data")" ]; then new=no; fi

"$bin" serve --data-dir "$data" --pg-listen "$pg" --http-listen "$http" 2> >(grep --line-buffered -v 'thalweg is ready' >&2) &
server=$!
# Ctrl-C reaches the server too, which drains; this script ends when it has.
trap 'kill -TERM "$server" 2>/dev/null || true; wait "$server" || true' INT TERM EXIT

until psql -h "${pg%:*}" -p "$port" -U thalweg -d thalweg -qAtc 'SELECT 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { echo "the server ended while starting" >&2; exit 1; }
    sleep 0.1
done
if [ "$new" = yes ]; then
    psql -h "${pg%:*}" -p "$port" -U thalweg -d thalweg -q -v ON_ERROR_STOP=1 -f "$here/../examples/demo.sql" 2> >(grep -v NOTICE >&2)
    echo "The demo is loaded: see examples/demo.sql."
fi
cat <<TEXT
Thalweg runs on the data in $data. Connect with

    psql -h ${pg%:*} -p $port -U thalweg thalweg

and try

    SELECT * FROM hot_auctions ORDER BY bids DESC;

Ctrl-C ends the server.
TEXT
wait "$server"
