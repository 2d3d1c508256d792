#!/usr/bin/env bash
# Makes .venv: a Python with PyTorch, ONNX and ONNX Runtime. Does nothing when it is there already.
#
# The interpreter is resolved once, in this order:
#   1. $SLUICE_PYTHON, which must be able to import torch;
#   2. the first python3 on the machine that imports torch;
#   3. the system's python3, after PyTorch was installed by apt (with sudo where not root);
#   4. the first python3, with PyTorch installed into .venv by pip, which on Linux brings CUDA along.
# The .venv sees that interpreter's own packages; pip adds what examples/spam/requirements.txt pins.
# Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly venv=.venv
readonly requirements=examples/spam/requirements.txt
readonly oldest=3.11 # the oldest Python that the pinned ONNX Runtime has wheels for

say() { echo "python: $*" >&2; }
die() {
    say "$*"
    exit 1
}

imports() { "$1" -c "import $2" >/dev/null 2>&1; }
recent() { "$1" -c "import sys; sys.exit(sys.version_info < (${oldest/./, }))" 2>/dev/null; }

# Every python3 once, in the order of PATH, the system's last.
interpreters() { { type -ap python3 || true; echo /usr/bin/python3; } | awk '!seen[$0]++'; }

first_that() {
    local python
    while read -r python; do
        if [[ -x $python ]] && recent "$python" && "$@" "$python"; then
            echo "$python"
            return
        fi
    done < <(interpreters)
    return 1
}
has_torch() { imports "$1" torch; }

# Debian and Ubuntu keep ensurepip, which venv needs, in a package of its own.
can_venv() { imports "$1" ensurepip; }

resolve() {
    if [[ -n ${SLUICE_PYTHON:-} ]]; then
        recent "$SLUICE_PYTHON" || die "SLUICE_PYTHON=$SLUICE_PYTHON is no Python $oldest or newer"
        has_torch "$SLUICE_PYTHON" || die "SLUICE_PYTHON=$SLUICE_PYTHON cannot import torch; install PyTorch there, or unset SLUICE_PYTHON"
        echo "$SLUICE_PYTHON"
    elif first_that has_torch; then
        return
    elif recent /usr/bin/python3 && scripts/install.sh --packages python3-torch python3-venv && has_torch /usr/bin/python3; then
        echo /usr/bin/python3
    else
        first_that can_venv || first_that true || die "no python3 of version $oldest or newer on this machine; install one, or name one in SLUICE_PYTHON"
    fi
}

stamp="$(cat "$requirements" scripts/python.sh <(echo "${SLUICE_PYTHON:-}") | sha256sum)"
current() { [[ -x $venv/bin/python3 && "$(cat "$venv/.stamp" 2>/dev/null)" == "$stamp" ]]; }

current && exit
exec 9>"$venv.lock"
flock 9 # two makes at once: the second waits, then finds the work done
current && exit

python="$(resolve)"
can_venv "$python" || scripts/install.sh --packages python3-venv || true
can_venv "$python" ||
    die "$python cannot make a .venv, for it has no ensurepip; have root run 'apt-get install python3-venv', or name a Python with PyTorch in SLUICE_PYTHON"

say "making $venv on $python"
rm -rf "$venv"
"$python" -m venv --system-site-packages "$venv"
packages=(-r "$requirements")
if has_torch "$venv/bin/python3"; then
    # PyTorch was built for one major version of numpy: pip must not put another in front of it.
    packages+=("numpy==$("$venv/bin/python3" -c 'import numpy; print(numpy.__version__)')")
else
    say "no PyTorch on this machine, and none by apt: pip downloads the CUDA build, about 3 GB (6 GB on disk)"
    packages+=(torch numpy)
fi
say "pip install ${packages[*]}"
"$venv/bin/python3" -m pip install --quiet --no-input --disable-pip-version-check "${packages[@]}" >&2 </dev/null
"$venv/bin/python3" - >&2 <<'EOF'
import onnx, onnxruntime, onnxruntime.quantization, platform, torch
torch.ones(1).numpy()
print(f"python: ready: Python {platform.python_version()}, torch {torch.__version__}, "
      f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
EOF
echo "$stamp" >"$venv/.stamp"
