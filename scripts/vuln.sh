#!/usr/bin/env bash
# Looks for known vulnerabilities in the packages that the programs are built of, by https://vuln.go.dev or the database that GOVULNDB
# names. It fails for each that is not listed in .vulnerabilities, and for what is listed there and is not found any more. With
# --if-reachable it says that the database cannot be reached, and does not fail: lint works offline.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

database="${GOVULNDB:-https://vuln.go.dev}"
if [[ ${1:-} == --if-reachable && $database == http* ]] && ! curl -fsS --max-time 20 -o /dev/null "$database/index/db.json" 2>/dev/null; then
    echo "vuln: $database cannot be reached: known vulnerabilities are not looked for" >&2
    exit 0
fi

status=0
output="$(.cache/tools/govulncheck -db "$database" -scan package ./cmd/...)" || status=$?
((status == 0 || status == 3)) || exit "$status" # 3: there are some
found="$(sed -n 's/^Vulnerability #[0-9]*: //p' <<<"$output" | sort -u)"
listed="$(sed -n 's/^\(GO-[0-9-]*\):.*/\1/p' .vulnerabilities | sort -u)"

unlisted="$(comm -23 <(echo "$found") <(echo "$listed"))"
gone="$(comm -13 <(echo "$found") <(echo "$listed"))"
[[ -z $unlisted ]] || printf '%s\n\nvuln: not in .vulnerabilities: %s\nUpgrade the module; where no version is without it, list it there with what it means for Sluice.\n' \
    "$output" "${unlisted//$'\n'/, }" >&2
[[ -z $gone ]] || printf 'vuln: in .vulnerabilities, but no longer found: %s\nRemove the lines.\n' "${gone//$'\n'/, }" >&2
[[ -z $unlisted$gone ]]
