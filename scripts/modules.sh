#!/usr/bin/env bash
# Checks which of the modules that go.mod requires no program is built of. These are for tests alone, and `go install` fetches none of them.
# Each is here on purpose, since unit tests import it; a test rig with modules of its own is a module under tools/ (docs/decisions/testing.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C # one order for sort and comm

readonly known='github.com/google/go-cmp
go.uber.org/goleak
pgregory.net/rapid'

required="$(sed -n 's/^\t\([^ ]*\) v[^ ]*$/\1/p' go.mod | sort)" # the others are `// indirect`
built="$(CGO_ENABLED=1 go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/... | sort -u)"
found="$(comm -23 <(echo "$required") <(echo "$built"))"

diff <(echo "$known") <(echo "$found") >&2 || {
    echo 'modules: those that only tests need are others than scripts/modules.sh knows (>: required; <: known): see there' >&2
    exit 1
}
