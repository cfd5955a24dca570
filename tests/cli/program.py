"""Runs the program as a user would, and makes small models for it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

PROGRAM = os.environ["TEMPERA_PROGRAM"]
SOURCE = pathlib.Path(os.environ["TEMPERA_SOURCE_DIR"])
MODELS = SOURCE / "models"
PHOTOS = SOURCE / "examples" / "photos"
SANITIZERS = os.environ.get("TEMPERA_SANITIZE", "")  # "address,undefined", ...: of the program


def run(*arguments, cwd=None, timeout=300, env=None):
    """The finished process, output as text."""
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=5 * timeout if SANITIZERS else timeout,
    )


class Case(unittest.TestCase):
    """A test in an empty folder of its own."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def expect_error(self, process, code, kind, *words):
        """The process failed with this exit code and error kind, and its message has all the words."""
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertIn(f"error[{kind}]", process.stderr)
        for word in words:
            self.assertIn(word, process.stderr)
        self.assertEqual(process.stdout, "")


def small_model(path, split=True):
    """A convolution to 24 channels whose output is cut in three, added up: what a rewrite can speed up."""
    rng = np.random.default_rng(3)
    weight = (rng.standard_normal((24, 8, 1, 1)) / 3).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv")]
    if split:
        nodes += [
            helper.make_node("Split", ["c"], ["q", "k", "v"], "split", axis=1, num_outputs=3),
            helper.make_node("Add", ["q", "k"], ["qk"], "add"),
            helper.make_node("Mul", ["qk", "v"], ["y"], "mul"),
        ]
    else:
        nodes += [helper.make_node("Relu", ["c"], ["y"], "relu")]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8 if split else 24, 32, 32])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def arrays(folder, count=6):
    """Files of real-valued inputs for small_model."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        rng = np.random.default_rng(100 + i)
        np.savez(folder / f"sample{i}.npz", x=rng.standard_normal((1, 8, 32, 32)).astype(np.float32))
    return folder
