#!/usr/bin/env bash
# Installs DuckDB, pyarrow, polars and fastavro into peers in the cache folder ($SLUICE_CACHE). The tests compare cleaning
# with them. Does nothing when they are there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/peers"

readonly venv="${SLUICE_CACHE:?where to put it}/peers"
stamp="$(sha256sum <requirements.txt)"

if [[ "$(cat "$venv/.stamp" 2>/dev/null)" == "$stamp" ]]; then
    echo "peers: they are in $venv" >&2
    exit
fi
echo "peers: installing them into $venv (200 MB)" >&2
rm -rf "$venv"
"${SLUICE_PYTHON_ENV:?a Python to make it of}/bin/python3" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-input --disable-pip-version-check -r requirements.txt >&2 </dev/null
echo "$stamp" >"$venv/.stamp"
