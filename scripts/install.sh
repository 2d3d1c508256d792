#!/usr/bin/env bash
# Installs what targets of make need of Debian or Ubuntu, unless it is there: `install.sh lint test`. Each target starts with this. Where
# it may not install, it names the packages and fails, before anything is built. `install.sh --packages NAME...` is for scripts that go on
# without a package. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "install: $*" >&2; }

# Fails where there is no apt or no right to use it. sudo may ask for a password where there is a terminal.
apt_install() {
    command -v apt-get >/dev/null || return 1
    local root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || return 1
        root=(sudo)
    fi
    say "apt-get install $*"
    # A new machine may still be busy with its first update.
    "${root[@]}" apt-get -qq update >&2 </dev/null &&
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" >&2 </dev/null
}

if [[ ${1:-} == --packages ]]; then
    shift
    apt_install "$@"
    exit
fi

# By target, besides Go and make.
declare -A needs=(
    [demo]='cc python3'
    [test]='cc python3 git curl java mvn mpirun libpython'
    [test-long]='cc python3 git'
    [cluster]='cc python3 postgres wget'
    [test-frameworks]='cc python3'
    [soak]='cc python3'
    [bench]='cc python3'
    [flink]='mvn'
    [triton]='python3 libpython'
    [lint]='cc git curl'
    [generate]='cc git'
)
declare -A packages=([cc]='gcc libc6-dev' [python3]='python3 python3-venv' [java]=default-jre-headless [mvn]=maven [mpirun]=openmpi-bin [postgres]=postgresql [libpython]=libpython3-dev)

has() {
    case $1 in
    cc) # gcc only recommends the C library's headers, which cgo needs
        echo '#include <stdlib.h>' | "$(go env CC || echo gcc)" -E - ;;
    python3) # Debian and Ubuntu keep ensurepip, which venv needs, in a package of its own
        "${SLUICE_PYTHON:-python3}" -c 'import ensurepip' || /usr/bin/python3 -c 'import ensurepip' ;;
    postgres) # Debian keeps it out of PATH
        compgen -G '/usr/lib/postgresql/*/bin/postgres' || command -v postgres ;;
    libpython) # Debian and Ubuntu keep it out of Python's own packages; no name without a version has it alone
        "${SLUICE_PYTHON:-/usr/bin/python3}" -c 'import ctypes, sys; ctypes.CDLL("libpython%d.%d.so.1.0" % sys.version_info[:2])' ;;
    mvn) # for Flink's jars, which may be there
        [[ -d ${SLUICE_CACHE:-.cache}/flink ]] || command -v mvn ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

wanted=(make)
for target; do
    read -ra of <<<"${needs[$target]:?"no target says what it needs by this name: $target"}"
    wanted+=("${of[@]}")
done
missing=()
for need in "${wanted[@]}"; do
    read -ra of <<<"${packages[$need]:-$need}"
    has "$need" || [[ " ${missing[*]} " == *" ${of[0]} "* ]] || missing+=("${of[@]}")
done
status=0
command -v go >/dev/null || {
    say "Go $(awk '$1 == "go" {print $2}' go.mod) or newer is needed: https://go.dev/dl"
    status=1
}
((${#missing[@]} == 0)) || { ((status == 0)) && apt_install "${missing[@]}"; } || {
    say "packages are missing for 'make $*': have root run 'apt-get install ${missing[*]}'"
    status=1
}
exit "$status"
