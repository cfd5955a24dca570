#!/usr/bin/env bash
# Fuzzes one libFuzzer target for $TEMPERA_FUZZ_SECONDS (60), from its corpus; new inputs and crashes go to the build folder.
#
# usage: tools/fuzz.sh TARGET CORPUS [libFuzzer options]
set -euo pipefail
target=$1
corpus=$2
shift 2

found=$(dirname "$target")/fuzz/$(basename "$target")
mkdir -p "$found/corpus" "$found/crashes"
exec "$target" "$found/corpus" "$corpus" -artifact_prefix="$found/crashes/" -max_total_time="${TEMPERA_FUZZ_SECONDS:-60}" \
  -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 "$@"
