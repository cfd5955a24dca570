#!/usr/bin/env bash
# The benches, one after another: each measures its peers in pairs in one run and prints medians.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shopt -s nullglob
benches=(build/bench/*_bench)
((${#benches[@]})) || { printf 'bench: error: no benches were built\n' >&2 && exit 2; }
for bench in "${benches[@]}"; do "$bench" "$@"; done
