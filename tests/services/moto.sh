#!/usr/bin/env bash
# One moto server (S3, in memory) on loopback, for tests. Needs install-moto.sh to have run.
#
#   moto.sh start DIR [PORT]   starts it and waits until it serves; prints http://127.0.0.1:PORT. Running already, it is left alone.
#   moto.sh stop DIR           stops it. What it held is gone.
#   moto.sh status DIR         prints its address, or fails.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
action=$1
mkdir -p "$2"
directory=$(cd "$2" && pwd)
server=${THALWEG_MOTO:-$SERVICES_ROOT/moto}/venv/bin/moto_server
pidfile=$directory/pid
log=$directory/moto.log

# The bucket list, as an S3 client would ask for it.
serves() { python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' "http://127.0.0.1:$1/" 2>/dev/null; }

start() {
    local port=${1:-} deadline
    [ -x "$server" ] || die "no moto server at $server; run install-moto.sh"
    if alive "$pidfile" "$server"; then
        port=$(cat "$directory/port")
    else
        if [ -z "$port" ]; then port=$(cat "$directory/port" 2>/dev/null || free_port); fi
        echo "$port" >"$directory/port"
        setsid "$server" -H 127.0.0.1 -p "$port" >"$log" 2>&1 </dev/null 9>&- &
        echo $! >"$pidfile"
    fi
    deadline=$((SECONDS + 60))
    until serves "$port"; do
        alive "$pidfile" "$server" || { tail -30 "$log" >&2; die "the server ended while starting"; }
        [ "$SECONDS" -lt "$deadline" ] || { tail -30 "$log" >&2; die "the server did not serve within 60 s"; }
        sleep 0.1
    done
    echo "http://127.0.0.1:$port"
}

exec 9>"$directory/.lock"
flock 9

case $action in
    start) start "${3:-}" ;;
    stop) stop_process "$pidfile" "$server" TERM ;;
    status)
        alive "$pidfile" "$server" || { say "no moto server runs in $directory"; exit 1; }
        echo "http://127.0.0.1:$(cat "$directory/port")"
        ;;
    *) usage ;;
esac
