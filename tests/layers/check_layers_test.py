"""tools/check_layers.py finds each kind of wrong arrow, and passes what is right. Each case is a source tree of a few files."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(os.environ.get("TEMPERA_SOURCE_DIR", Path(__file__).parents[2])) / "tools/check_layers.py"
HOUSE = """# Architecture

## The house

Text.

    tempera/
      tempera.h   the public API
      base/       errors
      onnx/       files
      engine/     engines
      cli/        commands
    tests/        what crosses rooms

## Rules
"""
CMAKE = "foreach(room IN ITEMS base onnx\n    engine cli)\nendforeach()\n"


class CheckLayers(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"docs/architecture.md": HOUSE, "CMakeLists.txt": CMAKE, **files}.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            (Path(folder) / "tempera").mkdir(exist_ok=True)
            done = subprocess.run([sys.executable, str(SCRIPT), folder], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def expect_error(self, files, text):
        code, output = self.run_on(files)
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)

    def test_passes_arrows_that_point_up(self):
        code, output = self.run_on({
            "tempera/base/error.h": "#include <string>\n",
            "tempera/onnx/read.cc": '#include <onnx/checker.h>\n#include "tempera/base/error.h"\n',
            "tempera/engine/torch/x.cc": '#include <ATen/ATen.h>\n#include "tempera/base/error.h"\n',
            "tempera/tempera.h": "", "tempera/tempera.cc": '#include "tempera/base/error.h"\n',
        })
        self.assertEqual(code, 0, output)

    def test_finds_an_arrow_that_points_down(self):
        self.expect_error({"tempera/base/a.h": '#include "tempera/cli/b.h"\n', "tempera/cli/b.h": ""},
                          "room 'cli' is listed below 'base'")

    def test_finds_a_file_that_is_not_there(self):
        self.expect_error({"tempera/base/a.h": '#include "tempera/base/b.h"\n'}, "does not exist")

    def test_finds_a_room_that_is_not_in_the_house(self):
        self.expect_error({"tempera/attic/a.h": ""}, "room 'attic' is not in")

    def test_finds_one_engine_that_knows_another(self):
        self.expect_error({"tempera/engine/torch/a.h": "",
                           "tempera/engine/openvino/b.cc": '#include "tempera/engine/torch/a.h"\n'},
                          "'engine/openvino' sees only")

    def test_finds_third_party_headers_out_of_place(self):
        self.expect_error({"tempera/base/a.cc": "#include <openvino/openvino.hpp>\n"}, "OpenVINO belongs in")

    def test_finds_third_party_headers_through_a_header_of_ours(self):
        self.expect_error({"tempera/engine/torch/a.h": "#include <ATen/ATen.h>\n",
                           "tempera/cli/b.cc": '#include "tempera/engine/torch/a.h"\n'}, "through 'tempera/engine/torch/a.h'")

    def test_finds_a_cycle(self):
        self.expect_error({"tempera/base/a.h": '#include "tempera/base/b.h"\n',
                           "tempera/base/b.h": '#include "tempera/base/a.h"\n'}, "cycle of includes")

    def test_finds_an_undeclared_dependency(self):
        self.expect_error({"tempera/onnx/CMakeLists.txt": "tempera_module(onnx SOURCES a.cc)",
                           "tempera/onnx/a.cc": '#include "tempera/base/e.h"\n', "tempera/base/e.h": ""},
                          "add 'base' to DEPS")

    def test_accepts_a_dependency_that_comes_with_another(self):
        code, output = self.run_on({
            "tempera/base/CMakeLists.txt": "tempera_module(base)", "tempera/base/e.h": "",
            "tempera/onnx/CMakeLists.txt": "tempera_module(onnx DEPS base SOURCES a.cc) # )",
            "tempera/engine/CMakeLists.txt": "tempera_module(engine\n  DEPS onnx\n  SOURCES b.cc)",
            "tempera/engine/b.cc": '#include "tempera/base/e.h"\n'})
        self.assertEqual(code, 0, output)

    def test_reads_on_behind_a_target_in_capitals(self):
        code, output = self.run_on({
            "tempera/cli/CMakeLists.txt": "tempera_module(cli PRIVATE_DEPS CLI11::CLI11 base\n  SOURCES a.cc)",
            "tempera/base/CMakeLists.txt": "tempera_module(base)", "tempera/base/e.h": "",
            "tempera/cli/a.cc": '#include "tempera/base/e.h"\n'})
        self.assertEqual(code, 0, output)

    def test_ignores_comments(self):
        code, output = self.run_on({"tempera/base/a.h": '// #include "tempera/cli/b.h"\n/*\n#include "x.h"\n*/\n'})
        self.assertEqual(code, 0, output)

    def test_says_that_it_cannot_read_the_house(self):
        code, output = self.run_on({"docs/architecture.md": "## The house\n\nnothing\n\n## Rules\n"})
        self.assertEqual(code, 2, output)

    def test_finds_a_list_of_rooms_that_differs(self):
        self.expect_error({"CMakeLists.txt": "foreach(room IN ITEMS base engine onnx cli)"}, "list of rooms differs")


if __name__ == "__main__":
    unittest.main()
