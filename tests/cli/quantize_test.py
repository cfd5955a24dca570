"""The command that stores weights in fewer bits, on a small model."""

import json
import unittest

import numpy as np
import onnx

from program import Case, arrays, run, small_model


class Quantize(Case):
    def setUp(self):
        super().setUp()
        self.model = small_model(self.folder / "m.onnx")
        self.out = self.folder / "out"

    def quantize(self, *more):
        return run("quantize", self.model, "-o", self.out, "--pairs", "5", "--quiet", *more)

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def test_writes_a_set_with_each_layer_and_what_it_lost(self):
        data = arrays(self.folder / "data")
        process = self.quantize("--scheme", "int4", "--data", data)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(
            sorted(p.name for p in self.out.iterdir() if not p.name.startswith(".")),
            ["model.onnx", "model.recipe.toml", "report.html", "report.json"],
        )
        report = self.report()
        (layer,) = report["layers"]
        self.assertEqual((layer["layer"], layer["op_type"], layer["format"]), ("conv", "Conv", "int4/64"))
        self.assertEqual(layer["bytes_before"], 24 * 8 * 4)
        self.assertEqual(layer["bytes_after"], 24 * 8 // 2 + 24 * 2)
        self.assertTrue(0.01 < layer["weight_error"] < 0.2, layer)
        self.assertTrue(report["verified"])
        loss = report["candidates"][-1]["losses"][0]
        self.assertTrue(0.01 < loss["value"] < 0.4, loss)
        self.assertTrue(any("the file's opset rose from 18 to 21" in note for note in report["notes"]))
        self.assertTrue(any("GPTQ" in note for note in report["notes"]))
        self.assertTrue(any("smaller on disk only" in note or "smaller in memory too" in note for note in report["notes"]))

    def test_int8_quantises_activations_and_says_which_refinements_helped(self):
        data = arrays(self.folder / "data")
        process = self.quantize("--scheme", "int8", "--data", data, "--calibrate", "minmax")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = self.report()
        (layer,) = report["layers"]
        self.assertEqual(layer["format"], "int8 x int8")
        self.assertTrue(any(note.startswith("refinements by relative L2") for note in report["notes"]), report["notes"])
        self.assertTrue(any("samples by minmax" in note for note in report["notes"]), report["notes"])
        model = onnx.load(self.out / "model.onnx")
        self.assertEqual([node.op_type for node in model.graph.node].count("QuantizeLinear"), 1)
        self.assertTrue(0 < report["candidates"][-1]["losses"][0]["value"] < 0.05)

    def test_without_data_nothing_is_claimed(self):
        process = self.quantize("--scheme", "ternary")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertFalse(self.report()["verified"])
        self.assertTrue(any(note.startswith("UNVERIFIED") for note in self.report()["notes"]))
        self.assertIn("UNVERIFIED", process.stdout)

    def test_a_missed_budget_is_exit_5_and_writes_nothing(self):
        process = self.quantize("--scheme", "binary", "--data", arrays(self.folder / "data"), "--max-loss", "1%")
        self.expect_error(process, 5, "loss_budget", "binary/64 loses too much", "beyond the budget (at most 1% loss)")
        self.assertFalse((self.out / "model.onnx").exists())

    def test_a_met_budget_is_exit_0(self):
        data = arrays(self.folder / "data")
        process = self.quantize("--scheme", "fp16", "--data", data, "--max-loss", "1%")
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_dry_run_tells_and_writes_nothing(self):
        process = run("quantize", self.model, "--scheme", "int4", "--dry-run", "--json", "--quiet")
        self.assertEqual(process.returncode, 0, process.stderr)
        forecast = json.loads(process.stdout)
        self.assertEqual(forecast["opset"], 21)
        self.assertEqual([layer["layer"] for layer in forecast["layers"]], ["conv"])
        self.assertEqual(forecast["bytes_before"] - forecast["bytes_after"], 24 * 8 * 4 - (24 * 8 // 2 + 24 * 2))
        self.assertGreater(forecast["total_seconds"], 0)
        self.assertGreater(forecast["peak_memory_bytes"], forecast["bytes_before"] + forecast["bytes_after"])
        self.assertEqual([p.name for p in self.folder.iterdir()], ["m.onnx"])
        text = run("quantize", self.model, "--scheme", "int4", "--dry-run", "--quiet").stdout
        self.assertIn("Nothing was written", text)

    def test_inspect_tells_what_int8_is_for_each_target(self):
        process = run("inspect", self.model, "--json", "--quiet")
        targets = json.loads(process.stdout)["targets"]
        self.assertEqual([(row["target"], row["int8"], row["layers"]) for row in targets],
                         [(name, 1, 1) for name in ("openvino", "onnxruntime", "tensorrt", "portable")])
        self.assertRegex(run("inspect", self.model).stdout, r"tensorrt +1 of 1")

    def test_a_layer_may_be_left_alone(self):
        process = self.quantize("--scheme", "ternary", "--keep-float", "conv")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(self.report()["layers"][0]["format"], "float")
        self.expect_error(self.quantize("--scheme", "ternary", "--keep-float", "cnv"), 2, "invalid_argument", "cnv", "conv")

    def test_bad_requests_say_what_is_wrong(self):
        self.expect_error(self.quantize("--scheme", "int5"), 2, "invalid_argument", "unknown scheme 'int5'", "int4")
        nowhere = run("quantize", self.model, "--scheme", "int4", "--quiet")
        self.expect_error(nowhere, 2, "invalid_argument", "no folder for the result")

    def test_an_infinite_weight_is_named(self):
        model = onnx.load(self.model)
        weight = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
        weight[3, 2, 0, 0] = np.inf
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
        onnx.save(model, self.model)
        self.expect_error(self.quantize("--scheme", "int4"), 3, "bad_model", "element [3,2,0,0] of weight 'w' is inf", "conv")
        self.assertFalse((self.out / "model.onnx").exists())


if __name__ == "__main__":
    unittest.main()
