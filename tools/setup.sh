#!/usr/bin/env bash
# Installs what building and testing Tempera needs on Debian 12 or Ubuntu 24.04, and nothing that is there already:
# system packages, the C++ SDKs (unpacked wheels in a cache folder), and a Python environment for the tests.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tools/setup.sh [--yes] [--no-tests] [--print-sdk-dir | --print-python]

  --yes            do not ask before installing (also when the variable CI is set)
  --no-tests       leave out the Python environment of the tests
  --print-sdk-dir  print the folder of the C++ SDKs and exit
  --print-python   print the Python program of the tests and exit

Environment:
  TEMPERA_SDK_DIR  folder of the C++ SDKs   (default: ~/.cache/tempera/sdk/<hash of the pins>)
  TEMPERA_VENV_DIR folder of the test Python (default: ~/.cache/tempera/test-python/<hash of the pins>)
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sdk_pins=$root/cmake/sdk-requirements.txt
test_pins=$root/tests/requirements.txt

die() {
  printf 'setup: error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  try: %s\n' "$line" >&2; done
  exit 2
}
say() { printf 'setup: %s\n' "$*" >&2; }
pins_hash() { sha256sum "$1" | cut -c1-12; }

yes=0
with_tests=1
print=
for argument in "$@"; do
  case $argument in
    --yes | -y) yes=1 ;;
    --no-tests) with_tests=0 ;;
    --print-sdk-dir) print=sdk ;;
    --print-python) print=python ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && die "unknown option '$argument'" ;;
  esac
done
case ${CI:-} in '' | 0 | false) ;; *) yes=1 ;; esac

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tempera
sdk_hash=$(pins_hash "$sdk_pins")
test_hash=$(pins_hash "$test_pins")
sdk=${TEMPERA_SDK_DIR:-$cache/sdk/$sdk_hash}
venv=${TEMPERA_VENV_DIR:-$cache/test-python/$test_hash}
case $print in
  sdk) printf '%s\n' "$sdk" && exit 0 ;;
  python) printf '%s\n' "$venv/bin/python" && exit 0 ;;
esac

# A folder is complete when its stamp holds the hash of the pins it was made from; it is made elsewhere and renamed.
is_complete() { [[ -f $1/.complete && $(<"$1/.complete") == "$2" ]]; }

packages=(
  g++ cmake ninja-build ccache pkgconf                        # compiler and build
  python3 python3-venv                                        # unpacks the SDKs; runs the tests' scripts
  libprotobuf-dev protobuf-compiler                           # the ONNX file format
  libcli11-dev libfmt-dev libspdlog-dev                       # command line, text, log
  nlohmann-json3-dev libtomlplusplus-dev                      # reports, recipes
  libvips-dev zlib1g-dev libssl-dev                           # images, npz, hashes
  libgtest-dev libgmock-dev libbenchmark-dev                  # tests and benches
)

missing_packages=()
if command -v dpkg-query >/dev/null; then
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || missing_packages+=("$package")
  done
else
  say "not a Debian or Ubuntu system: install by hand what these packages hold: ${packages[*]}"
fi
need_sdk=0
need_venv=0
is_complete "$sdk" "$sdk_hash" || need_sdk=1
if ((with_tests)); then is_complete "$venv" "$test_hash" || need_venv=1; fi

if ((${#missing_packages[@]} == 0 && need_sdk == 0 && need_venv == 0)); then
  exit 0
fi

say 'this will be installed:'
((${#missing_packages[@]} == 0)) || say "  system packages, without recommended ones: ${missing_packages[*]}"
((need_sdk == 0)) || say "  C++ SDKs (1.5 GB) in $sdk: $(tr '\n' ' ' <"$sdk_pins")"
((need_venv == 0)) || say "  Python environment of the tests (0.2 GB) in $venv: $(tr '\n' ' ' <"$test_pins")"

if ((yes == 0)); then
  [[ -t 0 ]] || die 'cannot ask: standard input is not a terminal' 'tools/setup.sh --yes'
  read -r -p 'setup: go on? [y/N] ' answer
  [[ $answer == [yY]* ]] || die 'nothing was installed'
fi

if ((${#missing_packages[@]})); then
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die 'system packages are missing, and this is neither root nor is there sudo' \
        "as root: apt-get install --no-install-recommends ${missing_packages[*]}"
    as_root=(sudo)
  fi
  ${as_root[@]+"${as_root[@]}"} apt-get -q update
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing_packages[@]}"
fi

# What follows writes the cache folder: one setup at a time, and a setup that waited finds the work done.
mkdir -p "$cache" "$(dirname "$sdk")" "$(dirname "$venv")"
exec 9>"$cache/.setup.lock"
flock -n 9 || { say 'waiting for another setup to finish' && flock 9; }

scratch=
cleanup() { [[ -z $scratch ]] || rm -rf -- "$scratch"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

# An environment's programs name its folder, so it is made in place and its stamp is written last.
make_venv() {
  local folder=$1 pins=$2 hash=$3
  rm -rf -- "$folder"
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip --quiet install --no-input --only-binary=:all: -r "$pins"
  printf '%s\n' "$hash" >"$folder/.complete"
}

if ((need_sdk)) && ! is_complete "$sdk" "$sdk_hash"; then
  say 'installing the C++ SDKs'
  if [[ -e $sdk ]] && [[ ! -f $sdk/.complete ]] && [[ -n $(ls -A "$sdk") ]]; then
    die "folder '$sdk' is not empty and not one of ours" 'TEMPERA_SDK_DIR=<an empty folder> tools/setup.sh'
  fi
  free_kb=$(df -Pk "$(dirname "$sdk")" | awk 'NR == 2 { print $4 }')
  ((free_kb > 4000000)) || die "the SDKs need 4 GB free in $(dirname "$sdk") while they unpack, $((free_kb / 1000)) MB are"
  scratch=$(mktemp -d "$(dirname "$sdk")/.partial-XXXXXX")
  chmod 755 "$scratch"
  mkdir "$scratch/tmp"
  python3 -m venv "$scratch/pip"
  # No --platform: the two NVIDIA names would resolve to empty placeholders.
  TMPDIR=$scratch/tmp PIP_USER=0 "$scratch/pip/bin/python" -m pip --quiet install --no-input --no-deps --no-compile \
    --only-binary=:all: --no-cache-dir --target "$scratch/sdk/py" -r "$sdk_pins"
  printf '%s\n' "$sdk_hash" >"$scratch/sdk/.complete"
  rm -rf -- "$sdk"
  mv "$scratch/sdk" "$sdk"
  rm -rf -- "$scratch"
  scratch=
fi
if ((need_venv)) && ! is_complete "$venv" "$test_hash"; then
  say 'installing the Python environment of the tests'
  make_venv "$venv" "$test_pins" "$test_hash"
fi
say 'done'
