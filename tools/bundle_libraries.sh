#!/usr/bin/env bash
# Copies into <prefix>/lib/tempera every system library that the installed tree <prefix> needs and a minimal system does
# not have, with the licence of the package it comes from. What stays outside: the C and C++ run-time libraries.
#
# usage: tools/bundle_libraries.sh PREFIX
set -euo pipefail

prefix=$(cd "$1" && pwd)
libraries=$prefix/lib/tempera
licences=$prefix/share/doc/tempera/licences
mkdir -p "$libraries" "$licences"

kept_outside='^(linux-vdso|ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|stdc\+\+|gcc_s))\.so'

mapfile -t objects < <(find "$prefix/bin" "$prefix/lib" -type f \( -name '*.so*' -o -perm -100 \))
needed=$(ldd "${objects[@]}" 2>/dev/null)
if missing=$(grep -F 'not found' <<<"$needed"); then
  printf 'bundle_libraries: error: libraries that the program needs are missing here:\n%s\n' "$missing" >&2
  exit 1
fi

list=$prefix/share/doc/tempera/bundled_libraries.txt
printf 'System libraries in lib/tempera, with the Debian or Ubuntu package and version they were copied from.\n' >"$list"
printf 'The licence of each is licences/<package>/copyright; its source is the distribution'\''s source package.\n\n' >>"$list"

count=0
while read -r name path; do
  [[ $path == "$prefix"/* || $name =~ $kept_outside || -e $libraries/$name ]] && continue
  install -m 755 "$(readlink -f "$path")" "$libraries/$name"
  strip --strip-unneeded "$libraries/$name"
  package=$(dpkg-query -S "$(readlink -f "$path")" 2>/dev/null | head -1 | cut -d: -f1 || true)
  [[ -n $package ]] || package=$(dpkg-query -S "${path#/usr}" 2>/dev/null | head -1 | cut -d: -f1 || true)
  version=
  if [[ -n $package ]]; then
    version=$(dpkg-query -W -f '${source:Package} ${source:Version}' "$package")
    if [[ -e /usr/share/doc/$package/copyright ]]; then
      install -D -m 644 "/usr/share/doc/$package/copyright" "$licences/$package/copyright"
    fi
  fi
  printf '%-28s %-28s source %s\n' "$name" "${package:-unknown}" "${version:-unknown}" >>"$list"
  count=$((count + 1))
done < <(awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' <<<"$needed" | sort -u)
printf 'bundle_libraries: %d system libraries, %s in all\n' "$count" "$(du -sh "$libraries" | cut -f1)" >&2
