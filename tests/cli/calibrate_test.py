"""Ranges of activations from the command line, against ONNX Runtime."""

import json
import unittest

import numpy as np
import onnx
import onnxruntime

from program import Case, arrays, run, small_model


class Calibrate(Case):
    def setUp(self):
        super().setUp()
        self.model = small_model(self.folder / "m.onnx")
        self.data = arrays(self.folder / "data")

    def calibrate(self, *more):
        out = self.folder / "ranges.json"
        process = run("calibrate", self.model, "--data", self.data, "-o", out, "--quiet", *more)
        self.assertEqual(process.returncode, 0, process.stderr)
        return out.read_text(), process

    def inner_tensors(self):
        """Every tensor of every sample, from ONNX Runtime."""
        model = onnx.load(self.model)
        names = [name for node in model.graph.node for name in node.output]
        del model.graph.output[:]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found = {name: [] for name in ["x", *names]}
        for path in sorted(self.data.glob("*.npz")):
            x = np.load(path)["x"].astype(np.float32)
            found["x"].append(x)
            for name, value in zip(names, session.run(None, {"x": x})):
                found[name].append(value)
        return found

    def test_minmax_is_that_of_every_tensor(self):
        text, process = self.calibrate("--method", "minmax")
        calibration = json.loads(text)
        self.assertEqual(calibration["schema"], "tempera.calibration")
        expected = self.inner_tensors()
        self.assertEqual(set(calibration["ranges"]), set(expected))
        for name, values in expected.items():
            found = calibration["ranges"][name]
            # float32 sums of 8 products, and products of those
            np.testing.assert_allclose(found["lo"], min(v.min() for v in values), rtol=1e-5, atol=1e-5, err_msg=name)
            np.testing.assert_allclose(found["hi"], max(v.max() for v in values), rtol=1e-5, atol=1e-5, err_msg=name)
            self.assertIn(name, process.stdout)

    def test_batch_and_threads_change_no_byte(self):
        first, _ = self.calibrate()
        for more in (["--threads", "1"], ["--batch", "3"], ["--threads", "2", "--batch", "2"]):
            self.assertEqual(self.calibrate(*more)[0], first)

    def test_json_and_chosen_tensors(self):
        text, process = self.calibrate("--json", "--tensors", "qk,y", "--samples", "2")
        self.assertEqual(process.stdout, text)
        calibration = json.loads(text)
        self.assertEqual(sorted(calibration["ranges"]), ["qk", "y"])
        self.assertEqual(calibration["samples"], 2)

    def test_wrong_names_are_errors(self):
        self.expect_error(run("calibrate", self.model, "--data", self.data, "--tensors", "qq", "--quiet"), 2,
                          "invalid_argument", "'qq'", "qk")
        self.expect_error(run("calibrate", self.model, "--data", self.data, "--method", "kl", "--quiet"), 2,
                          "invalid_argument", "kl")
        self.expect_error(run("calibrate", self.model, "--quiet"), 2, "invalid_argument", "--data")


if __name__ == "__main__":
    unittest.main()
