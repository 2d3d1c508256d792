#!/usr/bin/env bash
# Writes a release into dist/: for each platform an archive of the programs and an SBOM (CycloneDX) of each, and the checksums of all.
# PLATFORMS, "linux/amd64 linux/arm64" unless set, are pairs of GOOS and GOARCH; one that is not this machine's needs its C compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version="${VERSION:-}"
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
    echo "release: say which version: make release VERSION=v1.2.3" >&2
    exit 2
}
[[ -z $(git status --porcelain) ]] || {
    echo "release: the working tree has changes that are in no commit; commit or remove them" >&2
    exit 2
}

# Sluice loads ONNX Runtime, and sluice-gpu NVIDIA's library, through C.
declare -A compilers=([linux/amd64]=x86_64-linux-gnu-gcc [linux/arm64]=aarch64-linux-gnu-gcc)
declare -A packages=([linux/amd64]=gcc-x86-64-linux-gnu [linux/arm64]=gcc-aarch64-linux-gnu)
here="$(go env GOHOSTOS)/$(go env GOHOSTARCH)"
read -ra platforms <<<"${PLATFORMS:-linux/amd64 linux/arm64}"
for platform in "${platforms[@]}"; do
    compiler="${compilers[$platform]:-}"
    [[ -n $compiler ]] || {
        echo "release: no release for $platform: PLATFORMS may have ${!compilers[*]}" >&2
        exit 2
    }
    needed=("${packages[$platform]}" "libc6-dev-${platform#*/}-cross")
    [[ $platform == "$here" ]] || command -v "$compiler" >/dev/null || scripts/install.sh --packages "${needed[@]}" || {
        echo "release: $platform needs $compiler: apt-get install ${needed[*]}" >&2
        exit 2
    }
done

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/dist"
for platform in "${platforms[@]}"; do
    export GOOS="${platform%/*}" GOARCH="${platform#*/}"
    CC="$(go env CC)"
    [[ $platform == "$here" ]] || CC="${compilers[$platform]}"
    export CC
    name="sluice_${version#v}_${GOOS}_$GOARCH"
    echo "release: building $name" >&2
    mkdir "$work/$name"
    CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$name/" ./cmd/sluice ./cmd/sluice-gpu
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$name/" ./cmd/sluice-agent
    for program in "$work/$name"/*; do
        .cache/tools/cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$version" \
            -output "$work/dist/$(basename "$program")_${name#sluice_}.cdx.json" "$program"
    done
    cp LICENSE README.md "$work/$name/"
    # The same commit makes the same archive, whoever builds it when.
    tar -C "$work" --sort=name --mtime="@$(git log -1 --format=%ct)" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+w -c "$name" |
        gzip -n >"$work/dist/$name.tar.gz"
done
(cd "$work/dist" && sha256sum -- * >SHA256SUMS)

rm -rf dist
mv "$work/dist" dist
ls -l dist
