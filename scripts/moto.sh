#!/usr/bin/env bash
# Installs moto, a fake of AWS that speaks its protocols, into moto in the cache folder ($SLUICE_CACHE). The pool of EC2 instances is
# tested against it. Does nothing when it is there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/moto"

readonly venv="${SLUICE_CACHE:?where to put it}/moto"
stamp="$(sha256sum <requirements.txt)"

if [[ "$(cat "$venv/.stamp" 2>/dev/null)" == "$stamp" ]]; then
    echo "moto: it is in $venv" >&2
    exit
fi
echo "moto: installing it into $venv (140 MB)" >&2
rm -rf "$venv"
"${SLUICE_PYTHON_ENV:?a Python to make it of}/bin/python3" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-input --disable-pip-version-check -r requirements.txt >&2 </dev/null
echo "$stamp" >"$venv/.stamp"
