#!/usr/bin/env bash
# Installs onnxruntime-ggml, an execution provider of ONNX Runtime in a library of its own, into ggml in the cache folder ($SLUICE_CACHE). It needs
# no GPU, so that tests see with it how ONNX Runtime loads such libraries, which is how TensorRT for RTX comes. Does nothing when it is there already.
# Progress goes to stderr.
set -euo pipefail

readonly wanted=onnxruntime-ggml==0.2.0
readonly folder="${SLUICE_CACHE:?where to put it}/ggml"

if [[ "$(cat "$folder/.stamp" 2>/dev/null)" == "$wanted" ]]; then
    echo "ggml: it is in $folder" >&2
    exit
fi
echo "ggml: installing $wanted into $folder (22 MB)" >&2
rm -rf "$folder"
# Alone: it says that it needs an older ONNX Runtime than the one that it is tested with.
"${SLUICE_PYTHON_ENV:?a Python to install it with}/bin/python3" -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
    --only-binary=:all: --target "$folder" "$wanted" >&2 </dev/null
echo "$wanted" >"$folder/.stamp"
