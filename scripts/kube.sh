#!/usr/bin/env bash
# Builds kube, a Kubernetes control plane for tests (tools/kube), as kube/kube in the cache folder ($SLUICE_CACHE), unless it is there and
# made of the same. Progress goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tools/kube"

readonly kube="${SLUICE_CACHE:?where to put the program}/kube/kube"

made="$(cat go.mod go.sum main.go | sha256sum)"
if [[ -x $kube && "$(cat "$kube.from" 2>/dev/null)" == "$made" ]]; then
    exit
fi
echo "kube: building a Kubernetes control plane for tests (five minutes on two cores)" >&2
mkdir -p "${kube%/*}"
rm -f "$kube.from"
version="$(go list -m -f '{{.Version}}' k8s.io/kubernetes)"
go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$kube" .
echo "$made" >"$kube.from"
