#!/usr/bin/env bash
# Installs tritonclient, NVIDIA's client of the Open Inference Protocol, into tritonclient in the cache folder ($SLUICE_CACHE). The gateway is
# tested with it. Does nothing when it is there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/tritonclient"

readonly venv="${SLUICE_CACHE:?where to put it}/tritonclient"
stamp="$(sha256sum <requirements.txt)"

if [[ "$(cat "$venv/.stamp" 2>/dev/null)" == "$stamp" ]]; then
    echo "tritonclient: it is in $venv" >&2
    exit
fi
echo "tritonclient: installing it into $venv (150 MB)" >&2
rm -rf "$venv"
"${SLUICE_PYTHON_ENV:?a Python to make it of}/bin/python3" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-input --disable-pip-version-check -r requirements.txt >&2 </dev/null
echo "$stamp" >"$venv/.stamp"
