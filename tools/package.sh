#!/usr/bin/env bash
# Makes the relocatable archive of build/ and says how large it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ -x build/tempera ]] || { printf 'package: error: build/tempera does not exist\n  try: make build\n' >&2 && exit 2; }
rm -f build/tempera-*.tar.gz build/tempera-*.tar.gz.sha256
(cd build && cpack --config CPackConfig.cmake >/dev/null)
archive=$(echo build/tempera-*.tar.gz)
(cd build && sha256sum "${archive#build/}" >"${archive#build/}.sha256")
unpacked=$(gzip -dc "$archive" | wc -c)
printf '%s: %d MB packed, %d MB unpacked\n' "$archive" $(($(stat -c %s "$archive") / 1000000)) $((unpacked / 1000000))
printf 'Needs: x86-64 Linux with glibc %s or later and libstdc++6. Licences: share/doc/tempera.\n' \
  "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)"
