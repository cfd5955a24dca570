#!/usr/bin/env bash
# The benches, one after another: the peers in an environment of their own (bench/requirements.txt), then the programs.
#
# usage: tools/bench.sh [OPTION_OF_peers.py ...]     for example --models FOLDER; the models of this repository by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hash=$(sha256sum bench/requirements.txt | cut -c1-12)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/tempera/bench-python/$hash
if [[ ! -x $venv/bin/python ]]; then
  partial=$venv.partial
  rm -rf -- "$partial"
  python3 -m venv "$partial"
  "$partial/bin/pip" install --quiet --only-binary=:all: -r bench/requirements.txt
  mv "$partial" "$venv"
fi
(($#)) || set -- esrgan_medium_x4 esrgan_slim_x4 efficientnet_lite0 gnina_dense ani1x_single
"$venv/bin/python" bench/peers.py "$@"

shopt -s nullglob
for bench in build/bench/*_bench; do "$bench"; done
