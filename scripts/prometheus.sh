#!/usr/bin/env bash
# Puts Prometheus and promtool, of Debian or Ubuntu, into prometheus/ in the cache folder ($SLUICE_CACHE), unless they are installed. The
# package is only unpacked: where it is installed, Prometheus runs at port 9090 of all addresses, which `make cluster` needs.
set -euo pipefail

readonly dir="${SLUICE_CACHE:?where to put the programs}/prometheus"

if command -v promtool >/dev/null || [[ -x $dir/promtool ]]; then
    exit
fi
echo "prometheus: unpacking Debian's package" >&2
unpacked="$(mktemp -d)"
trap 'rm -rf "$unpacked"' EXIT
# With package lists of its own it needs no rights, and none that the machine has and that may be old.
mkdir -p "$unpacked"/{lists,cache/archives}/partial
apt=(apt-get -qq -o APT::Sandbox::User=root -o "Dir::State::Lists=$unpacked/lists" -o "Dir::Cache=$unpacked/cache")
(cd "$unpacked" && "${apt[@]}" update >&2 && "${apt[@]}" download prometheus >&2 && dpkg-deb -x prometheus_*.deb .)
mkdir -p "$dir"
install "$unpacked"/usr/bin/{prometheus,promtool} "$dir"
