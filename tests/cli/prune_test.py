"""Pruning end to end: smaller models that other engines open, honest figures, and a budget that is kept."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from program import Case, run


def residual_model(path):
    """Two residual blocks with group normalisation, seeded."""
    random = np.random.default_rng(3)
    weights, nodes = [], []

    def weight(name, *shape):
        weights.append(numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name))
        return name

    def conv(name, x, outputs, inputs):
        nodes.append(helper.make_node("Conv", [x, weight(name + ".w", outputs, inputs, 3, 3), weight(name + ".b", outputs)],
                                      [name], name=name, pads=[1, 1, 1, 1]))
        return name

    x = conv("first", "x", 16, 3)
    for block in "ab":
        y = conv(block + "1", x, 24, 16)
        nodes.append(helper.make_node("Relu", [y], [y + "r"], name=y + "r"))
        y = conv(block + "2", y + "r", 16, 24)
        nodes.append(helper.make_node("Add", [x, y], ["sum" + block], name="sum" + block))
        x = "sum" + block
    conv("last", x, 2, 16)
    shape = ["n", None, 12, 12]
    graph = helper.make_graph(
        nodes, "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*shape[:1], 3, *shape[2:]])],
        [helper.make_tensor_value_info("last", TensorProto.FLOAT, [*shape[:1], 2, *shape[2:]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Prune(Case):
    def setUp(self):
        super().setUp()
        self.model = residual_model(self.folder / "m.onnx")
        self.data = self.folder / "data"
        self.data.mkdir()
        random = np.random.default_rng(1)
        for i in range(12):
            np.savez(self.data / f"sample{i}.npz", x=random.normal(0, 1, (1, 3, 12, 12)).astype(np.float32))

    def prune(self, *more):
        out = self.folder / "out"
        process = run("prune", self.model, "--data", self.data, "-o", out, "--quiet", "--pairs", "5", *more)
        self.assertEqual(process.returncode, 0, process.stderr)
        return onnx.load(out / "model.onnx"), json.loads((out / "report.json").read_text())

    def figure(self, report, name):
        return next((f["before"], f["after"]) for f in report["figures"] if f["name"] == name)

    def relative_error(self, report):
        return report["candidates"][-1]["losses"][0]["value"]

    def test_channels_go_and_other_engines_agree(self):
        model, report = self.prune("--method", "channels", "--pruning-ratio", "0.5")
        onnx.checker.check_model(model, full_check=True)
        shapes = {w.name: list(w.dims) for w in model.graph.initializer}
        self.assertEqual(shapes["first.w"], [8, 3, 3, 3])
        self.assertEqual(shapes["a1.w"], [12, 8, 3, 3])
        self.assertEqual(shapes["last.w"], [2, 8, 3, 3])
        before, after = self.figure(report, "operations")
        self.assertLess(after, 0.35 * before)
        self.assertEqual(before, 2 * 144 * 9 * (16 * 3 + 4 * 16 * 24 + 2 * 16))
        self.assertEqual(after, 2 * 144 * 9 * (8 * 3 + 4 * 8 * 12 + 2 * 8))
        x = np.load(self.data / "sample0.npz")["x"]
        session = onnxruntime.InferenceSession(str(self.folder / "out" / "model.onnx"), providers=["CPUExecutionProvider"])
        process = run("compare", self.folder / "out" / "model.onnx", "--engines", "torch,openvino", "--data", self.data,
                      "--outputs-only", "--tolerance", "1e-4")
        self.assertEqual(process.returncode, 0, process.stdout)
        self.assertEqual(session.run(None, {"x": x})[0].shape, (1, 2, 12, 12))
        self.assertTrue(report["verified"])
        self.assertEqual(len(report["candidates"]), 2)

    def test_quantised_after_pruning_tells_the_order(self):
        self.prune("--method", "channels", "--pruning-ratio", "0.5")
        small, smaller = self.folder / "out", self.folder / "smaller"
        process = run("quantize", small / "model.onnx", "--scheme", "int8", "--data", self.data, "-o", smaller, "--quiet", "--pairs", "5")
        self.assertEqual(process.returncode, 0, process.stderr)
        report = json.loads((smaller / "report.json").read_text())
        self.assertEqual(report["history"], ["prune: channels, pruning ratio 0.5", "quantize: int8 x int8"])
        self.assertIn("steps: prune: channels, pruning ratio 0.5; then quantize: int8 x int8", process.stdout)
        self.assertTrue(all(layer["format"] == "int8 x int8" for layer in report["layers"]), report["layers"])
        onnx.checker.check_model(onnx.load(smaller / "model.onnx"), full_check=True)

    def test_fitting_anew_loses_less(self):
        _, plain = self.prune("--method", "channels", "--pruning-ratio", "0.25")
        _, fitted = self.prune("--method", "channels", "--pruning-ratio", "0.25", "--repair")
        self.assertLess(self.relative_error(fitted), 0.8 * self.relative_error(plain))

    def test_zeros_are_counted_exactly_and_claimed_to_speed_up_nothing(self):
        model, report = self.prune("--method", "l1-global", "--sparsity", "0.2")
        weights = [numpy_helper.to_array(w) for w in model.graph.initializer if w.name.endswith(".w")]
        total = sum(w.size for w in weights)
        zeros = sum(int((w == 0).sum()) for w in weights)
        self.assertEqual(zeros, int(0.2 * total + 0.5))
        self.assertEqual(self.figure(report, "zero weights"), (0, zeros))
        self.assertTrue(any("makes nothing faster" in note for note in report["notes"]))
        before, after = self.figure(report, "weights, compressed by zlib")
        self.assertLess(after, before)
        before, after = self.figure(report, "weights")
        self.assertEqual(after, before)

    def test_two_of_four(self):
        model, report = self.prune("--method", "2:4")
        weight = next(numpy_helper.to_array(w) for w in model.graph.initializer if w.name == "a1.w")
        self.assertTrue(((weight.reshape(24, 4, 4, 3, 3) != 0).sum(axis=2) == 2).all())
        skipped = [layer for layer in report["layers"] if layer["layer"] == "first"]
        self.assertEqual(skipped[0]["reason"], "sums over 3 numbers, no multiple of 4")

    def test_a_missed_budget_writes_nothing(self):
        out = self.folder / "out"
        process = run("prune", self.model, "--data", self.data, "-o", out, "--method", "channels", "--pruning-ratio", "0.5",
                      "--max-loss", "1%", "--pairs", "5", "--quiet")
        self.expect_error(process, 5, "loss_budget")
        self.assertFalse((out / "model.onnx").exists())
        self.assertFalse((out / "report.json").exists())

    def test_wrong_words_are_refused(self):
        base = ("prune", self.model, "--data", self.data, "-o", self.folder / "out")
        self.expect_error(run(*base, "--method", "chanels"), 2, "invalid_argument", "unknown method 'chanels'", "channels")
        self.expect_error(run(*base, "--method", "channels", "--sparsity", "0.2"), 2, "invalid_argument", "--pruning-ratio")
        self.expect_error(run(*base, "--method", "l1-layer", "--align", "8"), 2, "invalid_argument", "--align")
        self.expect_error(run(*base, "--method", "4:2"), 2, "invalid_argument", "4 of 2")
        self.expect_error(run(*base, "--method", "channels", "--pruning-ratio", "1"), 2, "invalid_argument", "ratio is 1")
        self.expect_error(run(*base, "--method", "channels", "--ignore", "a3"), 2, "not_found", "unknown layer 'a3'")
        self.expect_error(run("prune", self.model, "--method", "2:4", "-o", self.folder / "out"), 2, "invalid_argument", "data")
        self.assertFalse((self.folder / "out" / "model.onnx").exists())


if __name__ == "__main__":
    unittest.main()
