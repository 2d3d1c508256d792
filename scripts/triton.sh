#!/usr/bin/env bash
# Installs NVIDIA's Triton Inference Server into triton in the cache folder ($SLUICE_CACHE), with its Python backend and, as backends of that,
# ONNX Runtime (triton/model.py). The triton target is tested and measured with it. The server comes from PyPI; Sluice ships nothing of it.
# triton/tritonserver there starts it. Does nothing when it is there already. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/triton"

readonly venv="${SLUICE_CACHE:?where to put it}/triton"
readonly python="${SLUICE_PYTHON_ENV:?a Python to make it of}/bin/python3"
stamp="$(cat ../triton.sh requirements.txt model.py | sha256sum)"

if [[ "$(cat "$venv/.stamp" 2>/dev/null)" == "$stamp" ]]; then
    echo "triton: it is in $venv" >&2
    exit
fi
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
# The Python backend is a program for each version of Python, and has that as a library.
"$python" -c "import ctypes; ctypes.CDLL('libpython$version.so.1.0')" 2>/dev/null || {
    echo "triton: there is no libpython$version.so.1.0: have root run 'apt-get install libpython$version', or name another Python in SLUICE_PYTHON" >&2
    exit 1
}

echo "triton: installing it into $venv (320 MB)" >&2
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-input --disable-pip-version-check --no-deps -r requirements.txt >&2 </dev/null

packages="$("$venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
server="$packages/pytriton/tritonserver"
stub="$server/python_backend_stubs/$version/triton_python_backend_stub"
[[ -x $stub ]] || {
    echo "triton: its Python backend is not for Python $version: name a Python that is in ${stub%/*/*} in SLUICE_PYTHON" >&2
    exit 1
}
backends="$venv/backends"
mkdir -p "$backends"/{onnxruntime,tensorrt}
cp -r "$server/backends/python" "$backends/python"
cp "$stub" "$backends/python/"
for backend in onnxruntime tensorrt; do
    cp model.py "$backends/$backend/"
done
# The Python backend takes the first python3 of the path, which has to be the one with ONNX Runtime. The folder may be moved.
below() { realpath --relative-to="$venv" "$1"; }
cat >"$venv/tritonserver" <<EOF
#!/bin/sh
here="\$(dirname "\$(readlink -f "\$0")")"
export LD_LIBRARY_PATH="\$here/$(below "$packages/nvidia_pytriton.libs")" PATH="\$here/bin:\$PATH" PYTHONDONTWRITEBYTECODE=1
exec "\$here/$(below "$server/bin/tritonserver")" --backend-directory="\$here/backends" "\$@"
EOF
chmod +x "$venv/tritonserver"
echo "$stamp" >"$venv/.stamp"
