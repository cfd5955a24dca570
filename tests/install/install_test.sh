#!/usr/bin/env bash
# An outside project finds, compiles against and runs an installed tree, after the tree was moved to another place.
#
# usage: install_test.sh CMAKE     ($TEMPERA_BUILD_DIR is the build to install)
set -euo pipefail
cmake=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

"$cmake" --install "$TEMPERA_BUILD_DIR" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved tree"
prefix="$work/moved tree"

printf -- '-- the program runs\n'
"$prefix/bin/tempera" --version

printf -- '-- nothing is taken from the build or SDK folders\n'
libraries=$(ldd "$prefix/bin/tempera" "$prefix/lib/libtempera.so")
if grep -F 'not found' <<<"$libraries"; then exit 1; fi
for name in libtorch_cpu libc10 libopenvino libtbb; do
  paths=$(sed -n "s|^\s*$name\.so[^ ]* => \(.*\) (0x.*|\1|p" <<<"$libraries")
  [[ -n $paths ]] || { printf '%s is not linked\n' "$name" && exit 1; }
  while read -r path; do
    [[ $path == "$prefix"/* ]] || { printf '%s is loaded from %s\n' "$name" "$path" && exit 1; }
  done <<<"$paths"
done

printf -- '-- only the public header is installed\n'
headers=$(cd "$prefix/include" && find . -type f)
[[ $headers == ./tempera/tempera.h ]] || { printf 'installed headers: %s\n' "$headers" && exit 1; }

printf -- '-- an outside project builds and runs\n'
"$cmake" -S "$here/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
"$cmake" --build "$work/build" >/dev/null
"$work/build/consumer"
