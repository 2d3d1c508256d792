#!/usr/bin/env bash
# Fetches Flink's job server for Beam into flink in the cache folder ($SLUICE_CACHE): the 160 jars that scripts/flink/pom.xml asks for,
# 150 MB, by Maven from Maven Central, or from where $SLUICE_MAVEN says. They are believed only by their checksums. Does nothing when
# they are there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/flink"

readonly sums="$PWD/SHA256SUMS"
readonly plugin=org.apache.maven.plugins:maven-dependency-plugin:3.7.0
readonly jars="${SLUICE_CACHE:?where to put the jars}/flink"

say() { echo "flink: $*" >&2; }

# The folder holds what it must, and no jar besides: Java would load that too.
whole() {
    [[ -d $1 ]] && diff -q <(cut -c 67- "$sums" | sort) <(ls -A "$1" | sort) >/dev/null && (cd "$1" && sha256sum --status --strict -c "$sums")
}

if whole "$jars"; then
    say "the job server is in $jars"
    exit
fi
command -v mvn >/dev/null || {
    say "Maven is needed to fetch Flink's job server: install maven, or put the jars that $sums lists into $jars"
    exit 1
}
mkdir -p "$SLUICE_CACHE"
fresh="$(mktemp -d "$SLUICE_CACHE/.flink-XXXXXX")"
trap 'rm -rf "$fresh"' EXIT
say "fetching Flink's job server for Beam (150 MB)"
mvn --batch-mode --quiet --strict-checksums ${SLUICE_MAVEN:+"-Dmaven.central=$SLUICE_MAVEN"} "$plugin:copy-dependencies" \
    -DincludeScope=runtime "-DoutputDirectory=$fresh" </dev/null >&2
whole "$fresh" || {
    say "what Maven brought is not what $sums lists"
    exit 1
}
rm -rf "$jars"
chmod 755 "$fresh"
mv "$fresh" "$jars"
say "the job server is in $jars: set its path in clean.flink.job_server of an environment, unless SLUICE_CACHE is $SLUICE_CACHE there too"
