"""A program of the user's own as metric, through the command."""

import json
import sys
import unittest

import numpy as np

from program import Case, arrays, run, small_model

SCORE = f"""#!{sys.executable}
import pathlib, sys
import numpy as np
log, truth, output = sys.argv[1:]
truth, output = np.load(truth), np.load(output)
assert truth.shape == output.shape == (1, 24, 32, 32)
with open(pathlib.Path(log), "a") as file:
    file.write("run ")
print(1 + np.abs(output - truth).mean())
"""


class CommandMetric(Case):
    def setUp(self):
        super().setUp()
        self.model = small_model(self.folder / "m.onnx", split=False)
        self.log = self.folder / "log"
        self.write_program(SCORE)
        (self.folder / "m.recipe.toml").write_text(
            f"""version = 1
[output.y]
metric = "command_lower"
command = ["./score.py", "{self.log}"]
"""
        )
        self.data = arrays(self.folder / "data")
        for file in self.data.iterdir():
            np.savez(file, **np.load(file), y=np.ones((1, 24, 32, 32), np.float32))
        self.out = self.folder / "out"

    def write_program(self, text):
        program = self.folder / "score.py"
        program.write_text(text)
        program.chmod(0o755)

    def quantize(self, *more):
        words = ["--scheme", "int4", "--data", self.data, "--pairs", "5", "--quiet", "-o", self.out, *more]
        return run("quantize", self.model, *words)

    def test_is_refused_without_the_flag_and_never_run(self):
        self.expect_error(self.quantize(), 2, "invalid_argument", "'./score.py'", "--allow-command", "'y'")
        for command in (["optimize"], ["prune", "--method", "l1-layer", "--sparsity", "0.2"]):
            process = run(*command, self.model, "--data", self.data, "-o", self.out, "--quiet")
            self.expect_error(process, 2, "invalid_argument", "'./score.py'", "--allow-command")
        self.assertFalse(self.log.exists())

    def test_judges_with_the_flag(self):
        process = self.quantize("--allow-command")
        self.assertEqual(process.returncode, 0, process.stderr)
        loss = json.loads((self.out / "report.json").read_text())["candidates"][-1]["losses"][0]
        self.assertEqual(loss["metric"], "command_lower")
        self.assertGreater(loss["value"], 1)
        self.assertGreater(self.log.read_text().count("run"), 1)
        recipe = (self.out / "model.recipe.toml").read_text()
        self.assertIn(str(self.folder / "score.py"), recipe)

    def test_a_program_that_fails_ends_the_command(self):
        self.write_program("#!/bin/sh\necho 'no reference' >&2\nexit 4\n")
        process = self.quantize("--allow-command")
        self.expect_error(process, 2, "invalid_argument", "score.py' ended with exit code 4: no reference", "sample")
        self.assertFalse((self.out / "model.onnx").exists())


if __name__ == "__main__":
    unittest.main()
