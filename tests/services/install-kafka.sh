#!/usr/bin/env bash
# install-kafka.sh [DIR]: puts the jars of an Apache Kafka broker (kafka/pom.xml) into DIR/lib, unless they are there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

directory=${1:-$SERVICES_ROOT/kafka}
mkdir -p "$directory"
exec 9>"$directory/.lock"
flock 9

java_is_new_enough() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1)
    [ -n "$version" ] && [ "$version" -ge 17 ]
}
if ! java_is_new_enough; then
    apt_install openjdk-17-jre-headless
    java_is_new_enough || die "the java on the PATH is older than 17: $(command -v java)"
fi

wanted=$(sha256sum <"$here/kafka/pom.xml")
if [ "$(cat "$directory/.installed" 2>/dev/null || true)" = "$wanted" ]; then exit 0; fi

command -v mvn >/dev/null || apt_install maven
# Built beside the final place and renamed, so that an interrupted download is not taken for an installation.
building=$(mktemp -d "$directory/.building.XXXXXX")
trap 'rm -rf "$building"' EXIT
cp "$here/kafka/pom.xml" "$building/pom.xml"
say "fetching Apache Kafka from Maven Central into $directory"
for try in 1 2 3; do
    if (cd "$building" && mvn -q -B dependency:copy-dependencies "-DoutputDirectory=$building/lib") >&2; then break; fi
    [ "$try" != 3 ] || die "Maven could not fetch Apache Kafka"
    say "fetching failed, trying again"
done
rm -rf "$directory/lib"
mv "$building/lib" "$directory/lib"
echo "$wanted" >"$directory/.installed"
