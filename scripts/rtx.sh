#!/usr/bin/env bash
# Installs TensorRT for RTX, NVIDIA's builder of engines, into rtx in the cache folder ($SLUICE_CACHE), for Python's PYTHONPATH. Engines are
# built with it in tests; nothing of it is shipped. Does nothing when it is there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/rtx"

readonly dir="${SLUICE_CACHE:?where to put it}/rtx"
stamp="$(sha256sum <requirements.txt)"

if [[ "$(cat "$dir/.stamp" 2>/dev/null)" == "$stamp" ]]; then
    echo "rtx: it is in $dir" >&2
    exit
fi
echo "rtx: installing it into $dir (320 MB)" >&2
rm -rf "$dir"
"${SLUICE_PYTHON_ENV:?a Python to install it for}/bin/python3" -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
    --target "$dir" -r requirements.txt >&2 </dev/null
echo "$stamp" >"$dir/.stamp"
