"""The search of number formats, and sensitivity, on a real model."""

import json
import math
import signal
import subprocess
import unittest

import onnx

from program import MODELS, PHOTOS, PROGRAM, Case, run

MODEL = MODELS / "esrgan" / "esrgan_slim_x4.onnx"


class Formats(Case):
    def optimize(self, *more):
        out = self.folder / "out"
        # Few pairs: nothing counts as faster, and the search is over soon.
        process = run("optimize", MODEL, "--data", PHOTOS, "-o", out, "--pairs", "5", "--keep-all-passes", "--time", "150s",
                      "--quiet", *more)
        self.assertEqual(process.returncode, 0, process.stderr)
        return json.loads((out / "report.json").read_text()), (out / "report.html").read_text()

    def test_int8_is_tried_and_every_layer_accounted_for(self):
        report, page = self.optimize()
        self.assertTrue(report["trials"])
        self.assertTrue(all(0 <= trial["loss"] < 0.05 and trial["within"] for trial in report["trials"]), report["trials"])
        least = min(trial["file_bytes"] for trial in report["trials"])
        self.assertLess(least, 0.3 * report["model"]["bytes"])
        self.assertGreaterEqual(len(report["layers"]), 12)  # more once convolutions of joined channels are split
        for layer in report["layers"]:
            if layer["format"] == "int8 x int8":
                self.assertIn("I8", layer["kernel"], layer)  # what the compiled engine says it runs
        after, before = (sum(layer[key] for layer in report["layers"]) for key in ("bytes_after", "bytes_before"))
        self.assertLess(after, 0.3 * before)
        self.assertIn("Loss against speed and size", page)

    def test_a_budget_that_int8_cannot_hold_is_not_overrun(self):
        report, _ = self.optimize("--max-loss", "0.0001%")
        self.assertFalse(any(trial["chosen"] and not trial["within"] for trial in report["trials"]))
        self.assertFalse(report["changed"])

    def interrupted_search(self, out, sign):
        """What the search says from the line with the sign on, after which it is interrupted."""
        process = subprocess.Popen(
            [PROGRAM, "optimize", MODEL, "--data", PHOTOS, "-o", out, "--pairs", "30", "--keep-all-passes", "-v"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found = ""
        for line in process.stderr:
            if sign in line:
                found = line
                break
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, stderr)
        return found + stderr

    def test_an_interrupted_search_leaves_the_best_so_far_and_goes_on(self):
        out = self.folder / "out"
        # The first mix was measured, the float candidates before it.
        stderr = self.interrupted_search(out, "int8 wherever it can be")
        self.assertFalse((out / "model.onnx").exists())
        best = out / ".work" / "best"
        self.assertIn(f"not verified, is in {best}", stderr)
        onnx.checker.check_model(best / "model.onnx")
        self.assertIn("precision", (best / "model.recipe.toml").read_text())
        self.assertTrue((out / ".work" / "answers.jsonl").exists())
        again = self.interrupted_search(out, "measurements of an interrupted run")
        self.assertRegex(again, "[1-9] measurements of an interrupted run are used again")

    def test_float_only_searches_nothing(self):
        report, _ = self.optimize("--float-only")
        self.assertEqual(report["trials"], [])
        self.assertEqual(report["layers"], [])


class Sensitivity(Case):
    def test_fewer_bits_lose_more_in_every_layer(self):
        out = self.folder / "out"
        process = run("sensitivity", MODEL, "--data", PHOTOS, "--formats", "int8-weights,int4-weights", "--samples", "2",
                      "-o", out, "--quiet", "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = json.loads(process.stdout)
        self.assertEqual(report, json.loads((out / "sensitivity.json").read_text()))
        self.assertEqual(len(report["layers"]), 12)
        for layer in report["layers"]:
            losses = [layer["formats"][name]["loss"] for name in ("int8-weights", "int4-weights")]
            self.assertTrue(all(math.isfinite(loss) for loss in losses), layer)
            self.assertLess(losses[0], losses[1], layer)

    def test_unknown_format_names_the_nearest(self):
        process = run("sensitivity", MODEL, "--data", PHOTOS, "--formats", "int4-weight")
        self.expect_error(process, 2, "invalid_argument", "int4-weights")

    def test_no_time_is_named(self):
        process = run("optimize", MODEL, "--data", PHOTOS, "-o", self.folder / "out", "--time", "soon")
        self.expect_error(process, 2, "invalid_argument", "'soon' is no time")


if __name__ == "__main__":
    unittest.main()
