#!/usr/bin/env bash
# Runs all tests, on the binaries in bin/ that `make build` made ($SLUICE_BIN).
#
# Packages that link the Temporal server or prism, Beam's own runner, are tested without the race detector: compiling those two for it takes
# longer than all the rest. So are package compile, whose test program starts itself again and again, and some that compute for long in one
# goroutine: with the detector they take three to five times as long. Most wait for other processes more than they work, so three run at once.
# The one with most processes measures time, and runs alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SLUICE_BIN="$PWD/bin"
export SLUICE_TEST_ALL=1 # `make test` has provided for all of them: none is skipped for want of a program

readonly heavy='(^[^ ]+/(compile|dsl|dsl/expr|training/policy)\.test | (go\.temporal\.io/server|github\.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism)[/ ])'

# A line for each package that has tests: its path, then everything that its test binary links.
links="$(go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}} {{end}}' ./... | grep -E '^[^ ]+\.test ')"
mapfile -t light < <(grep -Ev "$heavy" <<<"$links" | sed 's/\.test .*//')
mapfile -t whole < <(grep -E "$heavy" <<<"$links" | sed 's/\.test .*//' | grep -v '/integration$')

# Linting vets; and what debuggers read of a program takes a third of the time to link it.
test=(go test -vet=off -ldflags='-s -w')

"$SLUICE_PYTHON_ENV/bin/python3" -B -m unittest discover -q -s examples/spam </dev/null
"${test[@]}" -race -p 3 -timeout 10m "${light[@]}" </dev/null
"${test[@]}" -count=1 -p 3 -timeout 20m "${whole[@]}" </dev/null
"${test[@]}" -count=1 -timeout 30m ./integration </dev/null

# Without a cache of workflows each of their tasks is replayed from the beginning, as after the loss of a worker.
SLUICE_TEST_NO_CACHE=1 "${test[@]}" -count=1 -timeout 5m ./integration -run 'TestEnds|TestCancelAtScale|TestNothingRunsAtScale' </dev/null
