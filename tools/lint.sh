#!/usr/bin/env bash
# clang-tidy 14 over the given files, or over every source file that the build compiles.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
[[ -n $tidy ]] || { printf 'lint: error: clang-tidy is not installed\n  try: apt-get install clang-tidy-14\n' >&2 && exit 2; }
files=("$@")
((${#files[@]})) || mapfile -t files < <(git ls-files 'tempera/*.cc')
# The build's precompiled header and warning flags are GCC's; clang-tidy reads neither.
database=$(mktemp -d)
trap 'rm -rf -- "$database"' EXIT
python3 - build/compile_commands.json "$database/compile_commands.json" <<'PY'
import json, re, sys
entries = json.load(open(sys.argv[1]))
for entry in entries:
    command = entry["command"]
    command = command[command.index("/c++ ") - 8:] if "/ccache " not in command else command.split("/ccache ", 1)[1]
    command = re.sub(r" -(Werror|fpch-preprocess|Winvalid-pch|Wshadow=local)(?= )", "", command)
    command = re.sub(r" -Wno-[\w=-]+", "", command)
    entry["command"] = re.sub(r" -include \S+cmake_pch\.hxx", "", command)
json.dump(entries, open(sys.argv[2], "w"))
PY
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 "$tidy" --quiet -p "$database"
