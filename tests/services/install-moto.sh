#!/usr/bin/env bash
# install-moto.sh [DIR]: a Python environment with the S3 server of moto in DIR, unless it is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

directory=${1:-$SERVICES_ROOT/moto}
mkdir -p "$directory"
exec 9>"$directory/.lock"
flock 9

wanted='moto[s3,server]==5.2.5'
if [ "$(cat "$directory/.installed" 2>/dev/null || true)" = "$wanted" ] && [ -x "$directory/venv/bin/moto_server" ]; then exit 0; fi
# Debian splits the part that a new environment needs off from python3.
python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv
rm -rf "$directory/venv"
python3 -m venv "$directory/venv"
say "installing $wanted into $directory"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check "$wanted" >&2 || die "pip could not install $wanted"
echo "$wanted" >"$directory/.installed"
