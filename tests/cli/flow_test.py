"""The main job end to end on small models."""

import json
import signal
import subprocess
import unittest

import numpy as np
import onnx
import onnxruntime

from program import PROGRAM, Case, arrays, run, small_model


class Flow(Case):
    def optimize(self, model, *more):
        out = self.folder / "out"
        process = run("optimize", model, "--data", arrays(self.folder / "data"), "-o", out, "--quiet", *more)
        self.assertEqual(process.returncode, 0, process.stderr)
        return out, json.loads((out / "report.json").read_text()), process

    def test_writes_a_valid_set_that_computes_the_same(self):
        model = small_model(self.folder / "m.onnx")
        out, report, process = self.optimize(model, "--precision", "f32", "--pairs", "5")
        self.assertEqual(
            sorted(p.name for p in out.iterdir() if not p.name.startswith(".")),
            ["model.onnx", "model.recipe.toml", "report.html", "report.json"],
        )
        onnx.checker.check_model(onnx.load(out / "model.onnx"), full_check=True)
        x = np.load(self.folder / "data" / "sample0.npz")["x"]
        old, new = (
            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
            for path in (model, out / "model.onnx")
        )
        np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)  # float32 sums of 8 products
        self.assertEqual(report["schema"], "tempera.report")
        self.assertTrue(report["verified"])
        self.assertEqual(len(report["model"]["sha256"]), 64)

    def test_few_pairs_never_count_as_faster(self):
        out, report, process = self.optimize(small_model(self.folder / "m.onnx"), "--pairs", "5")
        self.assertFalse(report["changed"])
        self.assertIn("original stays", report["summary"])
        self.assertEqual((out / "model.onnx").read_bytes(), (self.folder / "m.onnx").read_bytes())

    def test_without_data_only_lossless_candidates_are_tried(self):
        model = small_model(self.folder / "m.onnx")
        out = self.folder / "out"
        process = run("optimize", model, "-o", out, "--pairs", "5", "--quiet")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = json.loads((out / "report.json").read_text())
        self.assertEqual({c["precision"] for c in report["candidates"]}, {"f32"})
        self.assertFalse(report["verified"])
        self.assertTrue(any("no data was given" in note for note in report["notes"]))

    def test_two_sources_are_too_few_for_a_claim(self):
        model = small_model(self.folder / "m.onnx")
        out = self.folder / "out"
        process = run("optimize", model, "--data", arrays(self.folder / "few", 2), "-o", out, "--pairs", "5", "--quiet")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = json.loads((out / "report.json").read_text())
        self.assertFalse(report["verified"])
        self.assertTrue(any("insufficient data" in note for note in report["notes"]))

    def test_a_second_run_replaces_the_first(self):
        model = small_model(self.folder / "m.onnx")
        self.optimize(model, "--pairs", "5")
        self.optimize(model, "--pairs", "5")

    def test_an_interrupted_run_leaves_nothing(self):
        model = small_model(self.folder / "m.onnx")
        data = arrays(self.folder / "data")
        out = self.folder / "out"
        process = subprocess.Popen(
            [PROGRAM, "optimize", model, "--data", data, "-o", out, "--pairs", "100000", "--seconds", "1000"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Timing runs for minutes: once it has begun, the interruption cannot come too late.
        for line in process.stderr:
            if "measuring latency" in line:
                break
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertIn("error[cancelled]", stderr)
        self.assertFalse(out.exists())

    def test_run_writes_arrays(self):
        model = small_model(self.folder / "m.onnx")
        out = self.folder / "out"
        process = run("run", model, arrays(self.folder / "data", 2), "-o", out, "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        rows = json.loads(process.stdout)
        self.assertEqual(len(rows), 2)
        x = np.load(self.folder / "data" / "sample0.npz")["x"]
        want = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        np.testing.assert_allclose(np.load(rows[0]["file"]), want, rtol=1e-4, atol=1e-5)

    def test_compare_matches_tensors_by_origin(self):
        model = small_model(self.folder / "m.onnx")
        other = onnx.shape_inference.infer_shapes(onnx.load(model))
        for node in other.graph.node:
            node.input[:] = ["sum_of_both" if name == "qk" else name for name in node.input]
            node.output[:] = ["sum_of_both" if name == "qk" else name for name in node.output]
        (info,) = [info for info in other.graph.value_info if info.name == "qk"]
        info.name = "sum_of_both"
        info.metadata_props.add(key="tempera.origin", value="qk")
        (derived,) = [info for info in other.graph.value_info if info.name == "v"]
        derived.metadata_props.add(key="tempera.derived_from", value="v")
        onnx.save(other, self.folder / "other.onnx")
        process = run("compare", model, self.folder / "other.onnx", "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = json.loads(process.stdout)
        self.assertEqual({row["name"] for row in report["tensors"]}, {"c", "q", "k", "qk", "y"})
        self.assertEqual((report["derived"], report["only_in_first"], report["only_in_second"]), (["v"], [], []))

    def test_inspect_counts_parameters_and_flops(self):
        process = run("inspect", small_model(self.folder / "m.onnx"), "--json")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = json.loads(process.stdout)
        self.assertEqual(report["parameters"], 24 * 8)
        self.assertEqual(report["flops"], 2 * 24 * 8 * 32 * 32)
        for row in report["support"]:
            self.assertEqual(row["unsupported"], [], row)


if __name__ == "__main__":
    unittest.main()
