#!/usr/bin/env bash
# Runs every test: starts the services that tests need, then cargo's tests, then the clients; stops the services whatever happens.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
services=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-services.XXXXXX")
say() { printf '\n== %s\n' "$*"; }

stop() {
    "$here/services/kafka.sh" kill "$services/kafka" || true
    "$here/services/moto.sh" stop "$services/moto" || true
    rm -rf "$services"
}
trap stop EXIT
trap 'exit 130' INT TERM

say "building the server and the tests"
cargo build --release -p thalweg
cargo test --release --workspace --no-run

say "starting services"
THALWEG_TEST_KAFKA=$("$here/services/kafka.sh" start "$services/kafka")
THALWEG_MOTO_SERVER=${THALWEG_MOTO_SERVER:-${THALWEG_SERVICES:-$HOME/.cache/thalweg/services}/moto/venv/bin/moto_server}
export THALWEG_TEST_KAFKA THALWEG_MOTO_SERVER THALWEG_BIN=$target/release/thalweg
echo "Kafka at $THALWEG_TEST_KAFKA, an S3 server for each test that needs one from $THALWEG_MOTO_SERVER"

say "real clients"
clients/run.sh

say "cargo test"
# Tests that start servers share two cores: more at once would only wait for each other.
cargo test --release --workspace --no-fail-fast -- --test-threads="${TEST_THREADS:-2}"
