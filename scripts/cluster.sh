#!/usr/bin/env bash
# Makes what `make cluster` runs, in cluster/ in the cache folder ($SLUICE_CACHE), unless it is there and made of the same: the program
# that starts the Compose file's services as processes, Temporal's server, schema tool and UI, and versitygw, an S3 server, from their Go
# modules. PostgreSQL is the system's (scripts/install.sh). Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster"

readonly dir="${SLUICE_CACHE:?where to put the programs}/cluster"

made="$(cat go.mod go.sum ./*.go | sha256sum)"
if [[ "$(cat "$dir/.from" 2>/dev/null)" == "$made" ]]; then
    exit
fi
echo "cluster: building Temporal's server and what goes with it (five minutes on two cores)" >&2
mkdir -p "$dir"
rm -f "$dir/.from" # half of the programs are no cluster
build() { # program, package
    echo "cluster: $1" >&2
    go build -ldflags '-s -w' -o "$dir/$1" "$2"
}
build cluster .
build temporal-sql-tool go.temporal.io/server/cmd/tools/sql
build temporal-ui github.com/temporalio/ui-server/v2/cmd/server
build versitygw github.com/versity/versitygw/cmd/versitygw
build temporal-server go.temporal.io/server/cmd/server
echo "$made" >"$dir/.from"
