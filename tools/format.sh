#!/usr/bin/env bash
# clang-format 14 over the C++ files in git; --check only reports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

format=$(command -v clang-format-14 || command -v clang-format || true)
[[ -n $format ]] || { printf 'format: error: clang-format is not installed\n  try: apt-get install clang-format-14\n' >&2 && exit 2; }
"$format" --version | grep -q 'version 14\.' || printf 'format: warning: not version 14, results may differ\n' >&2
if [[ ${1:-} == --check ]]; then
  git ls-files '*.h' '*.cc' | xargs "$format" --dry-run --Werror
else
  git ls-files '*.h' '*.cc' | xargs "$format" -i
fi
