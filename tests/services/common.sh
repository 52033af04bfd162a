# What the service scripts share; read with `.`, never run.

# Where services are installed if the caller names no folder. Outside the build tree, so that runs reuse it.
SERVICES_ROOT="${THALWEG_SERVICES:-${HOME:-/root}/.cache/thalweg/services}"

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

die() { say "$*"; exit 1; }

# apt_install PACKAGE...: installs Debian packages, or says which ones are needed where that is not possible.
apt_install() {
    say "installing Debian packages: $*"
    if ! command -v apt-get >/dev/null; then die "please install: $*"; fi
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "not root and no sudo; please install: $*"
        as_root=(sudo -n)
    fi
    # An install from stale lists can fail, so the lists are brought up to date only when the first try did.
    local try=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@")
    "${try[@]}" >/dev/null 2>&1 && return
    "${as_root[@]}" apt-get update -q >/dev/null || die "apt-get update failed; please install: $*"
    "${try[@]}" >/dev/null || die "apt-get install failed; please install: $*"
}

# alive PIDFILE NEEDLE: whether the process written down there runs and is ours, told by a word of its command line, since
# a process id is used again after a restart of the machine.
alive() {
    local pid
    pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && [ -r "/proc/$pid/cmdline" ] \
        && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF -- "$2"
}

# stop_process PIDFILE NEEDLE [SIGNAL]: ends it, by force after 20 seconds.
stop_process() {
    local pid deadline
    if alive "$1" "$2"; then
        pid=$(cat "$1")
        kill "-${3:-TERM}" "$pid" 2>/dev/null || true
        deadline=$((SECONDS + 20))
        while alive "$1" "$2"; do
            if [ "$SECONDS" -ge "$deadline" ]; then kill -KILL "$pid" 2>/dev/null || true; deadline=$((SECONDS + 20)); fi
            sleep 0.05
        done
    fi
    rm -f "$1"
}

# answers PORT: whether something on loopback takes a connection there.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port [NOT]: a port on loopback that nothing listens on, below those that the kernel gives to clients.
free_port() {
    local port
    for _ in $(seq 100); do
        port=$((20000 + RANDOM % 10000))
        if [ "$port" != "${1:-}" ] && ! answers "$port"; then echo "$port"; return; fi
    done
    die "found no free port"
}
