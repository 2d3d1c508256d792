#!/usr/bin/env bash
# Installs current releases of the frameworks of docs/frameworks.md into frameworks in the cache folder ($SLUICE_CACHE). Does nothing when
# they are there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/frameworks"

readonly venv="${SLUICE_CACHE:?where to put it}/frameworks"
stamp="$(sha256sum <requirements.txt)"

if [[ "$(cat "$venv/.stamp" 2>/dev/null)" == "$stamp" ]]; then
    echo "frameworks: they are in $venv" >&2
    exit
fi
echo "frameworks: installing them into $venv (3 GB to download, 6 GB on disk)" >&2
rm -rf "$venv"
"${SLUICE_PYTHON_ENV:?a Python to make it of}/bin/python3" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-input --disable-pip-version-check --no-cache-dir -r requirements.txt >&2 </dev/null
"$venv/bin/python3" -c 'import accelerate, lightning, torch, transformers' >&2
echo "$stamp" >"$venv/.stamp"
