#!/usr/bin/env bash
# The demo: a pretrained super-resolution network, optimised on real photos and measured against the original.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build/tempera optimize models/esrgan/esrgan_medium_x4.onnx --data examples/photos -o demo --force
printf '\nreport with pictures: demo/report.html\n'
