"""`tempera run`: what the outputs are called, and what is shown of classes."""

import json
import subprocess
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from program import PROGRAM, Case, run

HOSTILE = ["../../escape", "/abs/olute", "..hidden"]


def identity(path, outputs=("y",), shape=(1, 3)):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], [name], f"copy{i}") for i, name in enumerate(outputs)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


class Run(Case):
    def files(self, out):
        return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())

    def finish(self, *arguments):
        process = run("run", *arguments, "--quiet")
        self.assertEqual(process.returncode, 0, process.stderr)
        return process.stdout

    def test_samples_of_one_file_get_files_of_their_own(self):
        model, out = identity(self.folder / "m.onnx"), self.folder / "out"
        values = np.arange(9, dtype=np.float32).reshape(3, 1, 3)
        np.savez(self.folder / "frames.npz", x=values)
        self.finish(model, self.folder / "frames.npz", "-o", out)
        names = self.files(out)
        self.assertEqual(len(names), 3, names)
        self.assertTrue(all(name.startswith("frames_") for name in names), names)
        read = sorted(np.load(out / name).ravel().tolist() for name in names)
        self.assertEqual(read, values.reshape(3, 3).tolist())

    def test_files_of_one_stem_do_not_overwrite_each_other(self):
        model, data, out = identity(self.folder / "m.onnx"), self.folder / "data", self.folder / "out"
        for sub in ("a", "b"):
            (data / sub).mkdir(parents=True)
            np.save(data / sub / "x.npy", np.full((1, 3), ord(sub), np.float32))
        self.finish(model, data / "a" / "x.npy", data / "b" / "x.npy", "-o", out)
        self.assertEqual(self.files(out), ["x.npy", "x_2.npy"])
        self.assertEqual({np.load(out / name)[0, 0] for name in self.files(out)}, {97.0, 98.0})

    def test_an_input_is_not_overwritten(self):
        model = identity(self.folder / "m.onnx", shape=(1, 3))
        np.save(self.folder / "x.npy", np.ones((1, 3), np.float32))
        before = (self.folder / "x.npy").read_bytes()
        self.finish(model, self.folder / "x.npy", "-o", self.folder)
        self.assertEqual((self.folder / "x.npy").read_bytes(), before)
        self.assertTrue((self.folder / "x_2.npy").exists())

    def test_names_of_outputs_do_not_leave_the_folder(self):
        model, out = identity(self.folder / "m.onnx", HOSTILE), self.folder / "deep" / "er" / "out"
        np.save(self.folder / "x.npy", np.ones((1, 3), np.float32))
        self.finish(model, self.folder / "x.npy", "-o", out)
        self.assertEqual(self.files(out), ["x._.._escape.npy", "x._abs_olute.npy", "x.hidden.npy"])
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"m.onnx", "x.npy", "deep"})

    def test_arrays_go_into_one_npz(self):
        model, out = identity(self.folder / "m.onnx", ["one", "two"]), self.folder / "out"
        np.save(self.folder / "x.npy", np.ones((1, 3), np.float32))
        rows = json.loads(self.finish(model, self.folder / "x.npy", "-o", out, "--npz", "--json"))
        self.assertEqual(self.files(out), ["x.npz"])
        self.assertEqual({row["file"] for row in rows}, {str(out / "x.npz")})
        with np.load(out / "x.npz") as arrays:
            self.assertEqual(sorted(arrays), ["one", "two"])
            self.assertTrue((arrays["two"] == 1).all())

    def test_classes_are_ranked_within_each_row(self):
        model = identity(self.folder / "m.onnx", shape=(2, 3))
        (self.folder / "m.recipe.toml").write_text(
            'version = 1\n[input.x]\nkind = "array"\n[output.y]\nmeaning = "logits"\n')
        np.save(self.folder / "x.npy", np.log(np.array([[1, 2, 1], [7, 2, 1]], np.float32)))
        rows = json.loads(self.finish(model, self.folder / "x.npy", "--top", "2", "--json"))
        top = [(entry["row"], entry["class"], round(entry["probability"], 4)) for entry in rows[0]["top"]]
        self.assertEqual(top, [(0, 1, 0.5), (0, 0, 0.25), (1, 0, 0.7), (1, 1, 0.2)])

    def test_a_full_standard_output_is_an_error(self):
        model = identity(self.folder / "m.onnx")
        for more in ([], ["--json"]):
            with open("/dev/full", "w") as full:
                process = subprocess.run([PROGRAM, "inspect", model, *more], stdout=full, stderr=subprocess.PIPE, text=True,
                                         stdin=subprocess.DEVNULL, timeout=300)
            self.assertEqual(process.returncode, 6, process.stderr)
            self.assertIn("cannot write to standard output: No space left on device", process.stderr)


if __name__ == "__main__":
    unittest.main()
