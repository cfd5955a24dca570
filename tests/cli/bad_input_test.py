"""Bad models, data, recipes and folders: a clear error, the right exit code, nothing written."""

import os
import random
import resource
import subprocess
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from program import MODELS, PROGRAM, SANITIZERS, SOURCE, Case, arrays, run, small_model

EXIT_CODES = {0, 2, 3, 4, 6}  # anything else is a fault of the program: 70, or a signal


def save_graph(path, nodes, inputs, outputs, initializers=(), opset=18):
    """A model of float tensors: name -> shape."""
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]
        for values in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *infos, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path


RESERVES = "the address sanitizer reserves terabytes of address space"


def run_limited(*arguments, gigabytes=16):
    """The finished process, which may not take more address space than given."""
    limit = gigabytes << 30
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )


class BadModels(Case):
    def test_bits_flipped_anywhere_never_crash(self):
        good = small_model(self.folder / "m.onnx").read_bytes()
        rng = random.Random(11)
        path = self.folder / "bad.onnx"
        for _ in range(12):
            bad = bytearray(good)
            for _ in range(rng.randint(1, 4)):
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            path.write_bytes(bad)
            process = run("inspect", path, "--json")
            self.assertIn(process.returncode, EXIT_CODES, process.stderr)
            self.assertEqual(process.returncode == 0, process.stderr == "", process.stderr)

    def test_cycle_names_a_node(self):
        nodes = [helper.make_node("Add", ["x", "b"], ["a"], "one"), helper.make_node("Neg", ["a"], ["b"], "two")]
        path = save_graph(self.folder / "m.onnx", nodes, {"x": [2]}, {"b": [2]})
        self.expect_error(run("inspect", path), 3, "bad_model", "cycle", "node 'one' (Add)")

    def test_wrong_types_name_the_node(self):
        nodes = [helper.make_node("Cast", ["x"], ["i"], "cast", to=TensorProto.INT64),
                 helper.make_node("Add", ["x", "i"], ["y"], "mixed")]
        path = save_graph(self.folder / "m.onnx", nodes, {"x": [2]}, {"y": [2]})
        np.save(self.folder / "x.npy", np.ones(2, np.float32))
        for engine in ("openvino", "torch"):
            process = run("run", path, self.folder / "x.npy", "-o", self.folder / "out", "--engine", engine)
            self.assertIn(process.returncode, {3, 4}, process.stderr)
            self.assertIn("mixed", process.stderr)
            self.assertFalse((self.folder / "out").exists())

    @unittest.skipIf("address" in SANITIZERS, RESERVES)
    def test_huge_declared_sizes_take_no_memory(self):
        path = save_graph(self.folder / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], {"x": [1 << 40]}, {"y": [1 << 40]})
        process = run_limited("inspect", path)
        self.assertEqual(process.returncode, 0, process.stderr)
        process = run_limited("optimize", path, "-o", self.folder / "out")
        self.assertIn(process.returncode, {2, 3, 4}, process.stderr)
        self.assertIn("error[", process.stderr)
        self.assertFalse((self.folder / "out").exists())

    @unittest.skipIf("address" in SANITIZERS, RESERVES)
    def test_huge_computed_constants_take_no_memory(self):
        shape = onnx.numpy_helper.from_array(np.array([1 << 40], np.int64), "shape")
        nodes = [helper.make_node("ConstantOfShape", ["shape"], ["c"], "fill"), helper.make_node("Add", ["x", "c"], ["y"])]
        path = save_graph(self.folder / "m.onnx", nodes, {"x": [1]}, {"y": None}, [shape])
        np.save(self.folder / "x.npy", np.ones(1, np.float32))
        for command in (["inspect", path], ["run", path, self.folder / "x.npy", "-o", self.folder / "out"]):
            process = run_limited(*command)
            self.assertIn(process.returncode, EXIT_CODES, process.stderr)
        self.assertNotEqual(process.returncode, 0)

    def test_sizes_that_overflow(self):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 33, 1 << 33], raw_data=b"\0" * 8)
        nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
        path = save_graph(self.folder / "m.onnx", nodes, {"x": [1]}, {"y": None}, [tensor])
        self.expect_error(run("inspect", path), 3, "bad_model", "'w'")

    def external(self, location, offset=0, length=8):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
        for key, value in {"location": location, "offset": offset, "length": length}.items():
            tensor.external_data.add(key=key, value=str(value))
        nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
        path = self.folder / "models" / "m.onnx"
        path.parent.mkdir(exist_ok=True)
        return save_graph(path, nodes, {"x": [2]}, {"y": [2]}, [tensor])

    def test_external_data_outside_the_folder(self):
        (self.folder / "secret").write_bytes(b"\0" * 64)
        for location in ("../secret", str(self.folder / "secret"), "sub/../../secret"):
            self.expect_error(run("inspect", self.external(location)), 3, "bad_model", "'w'", "secret")
        path = self.external("link")
        (path.parent / "link").symlink_to(self.folder / "secret")
        self.expect_error(run("inspect", path), 3, "bad_model", "'w'", "link")

    def test_external_data_past_the_end(self):
        path = self.external("w.bin", offset=4)
        (path.parent / "w.bin").write_bytes(b"\0" * 8)
        self.expect_error(run("inspect", path), 3, "bad_model", "'w'", "w.bin")

    def test_deep_nesting(self):
        """A body in a body and so on, written byte by byte: the libraries refuse to build it."""

        def field(number, payload):
            size, head = len(payload), b""
            while size > 127:
                head += bytes([size & 127 | 128])
                size >>= 7
            return bytes([number << 3 | 2]) + head + bytes([size]) + payload

        for depth, codes in ((20, {0, 3}), (3000, {3})):
            graph = b""
            for _ in range(depth):
                graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
            path = self.folder / "m.onnx"
            path.write_bytes(bytes([1 << 3, 9]) + field(8, field(1, b"") + bytes([2 << 3, 18])) + field(7, graph))
            process = run("inspect", path)
            self.assertIn(process.returncode, codes, process.stderr)
        self.expect_error(process, 3, "bad_model", "m.onnx", "nested deeper")


class BadInput(Case):
    def test_missing_model(self):
        self.expect_error(run("inspect", self.folder / "no.onnx"), 2, "not_found", "no.onnx")

    def test_text_instead_of_a_model(self):
        path = self.folder / "text.onnx"
        path.write_text("this is not a model\n" * 50)
        self.expect_error(run("inspect", path), 3, "bad_model", "text.onnx")

    def test_truncated_model(self):
        path = small_model(self.folder / "m.onnx")
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        self.expect_error(run("inspect", path), 3, "bad_model", "m.onnx")

    def test_empty_data_folder(self):
        model = small_model(self.folder / "m.onnx")
        (self.folder / "empty").mkdir()
        process = run("optimize", model, "--data", self.folder / "empty", "-o", self.folder / "out")
        self.expect_error(process, 2, "not_found", "empty")
        self.assertFalse((self.folder / "out").exists())

    def test_nan_in_data_names_file_and_element(self):
        model = small_model(self.folder / "m.onnx")
        data = arrays(self.folder / "data")
        bad = np.zeros((1, 8, 32, 32), np.float32)
        bad[0, 3, 1, 2] = np.nan
        np.savez(data / "sample3.npz", x=bad)
        process = run("optimize", model, "--data", data, "-o", self.folder / "out")
        self.expect_error(process, 2, "invalid_argument", "sample3.npz", "3,1,2")
        self.assertFalse((self.folder / "out").exists())

    def test_wrong_shape_names_file_and_shapes(self):
        model = small_model(self.folder / "m.onnx")
        data = self.folder / "data"
        data.mkdir()
        np.savez(data / "a.npz", x=np.zeros((1, 7, 32, 32), np.float32))
        process = run("run", model, data, "-o", self.folder / "out")
        self.expect_error(process, 2, "invalid_argument", "a.npz", "7")

    def test_npz_with_missing_arrays_and_other_types(self):
        model = small_model(self.folder / "m.onnx")
        data = self.folder / "data"
        data.mkdir()
        np.savez(data / "a.npz", other=np.zeros((1, 8, 32, 32), np.float32))
        process = run("run", model, data / "a.npz", "-o", self.folder / "out")
        self.expect_error(process, 2, "invalid_argument", "a.npz", "'x'")
        np.savez(data / "b.npz", x=np.zeros((1, 8, 32, 32), np.complex64))
        process = run("run", model, data / "b.npz", "-o", self.folder / "out")
        self.expect_error(process, 2, "invalid_argument", "b.npz")
        (data / "c.npz").write_bytes((data / "a.npz").read_bytes()[:100])
        process = run("run", model, data / "c.npz", "-o", self.folder / "out")
        self.expect_error(process, 2, "invalid_argument", "c.npz", "cut short")
        self.assertFalse((self.folder / "out").exists())

    def test_pictures_that_are_bombs_broken_or_none(self):
        model = MODELS / "esrgan" / "esrgan_slim_x4.onnx"
        pictures = SOURCE / "tempera" / "image" / "testdata"
        out = self.folder / "out"
        self.expect_error(run("run", model, pictures / "bomb.png", "-o", out), 2, "invalid_argument", "bomb.png", "pixels")
        broken = self.folder / "broken.jpg"
        broken.write_bytes((pictures / "rgb.jpg").read_bytes()[:300])
        self.expect_error(run("run", model, broken, "-o", out), 6, "io", "broken.jpg")
        text = self.folder / "text.png"
        text.write_text("no picture")
        self.expect_error(run("run", model, text, "-o", out), 6, "io", "text.png")
        self.assertFalse(out.exists())

    def nan_model(self):
        """Gives NaN where x is negative: log(x) + x, named 'root' and 'sum'."""
        nodes = [helper.make_node("Log", ["x"], ["l"], "root"), helper.make_node("Add", ["l", "x"], ["y"], "sum")]
        return save_graph(self.folder / "nan.onnx", nodes, {"x": [1, 4]}, {"y": [1, 4]})

    def test_nan_in_outputs_names_the_node_that_makes_it(self):
        data = self.folder / "data"
        data.mkdir()
        for i in range(6):
            x = np.ones((1, 4), np.float32)
            x[0, 2] = -i
            np.savez(data / f"s{i}.npz", x=x)
        model = self.nan_model()
        out = self.folder / "out"
        for engine in ("openvino", "torch"):
            process = run("run", model, data / "s3.npz", "-o", out, "--engine", engine)
            self.expect_error(process, 4, "engine_failed", "output 'y'", "[0,2]", "node 'root' (Log)", "s3")
            self.assertFalse(out.exists())
        process = run("run", model, data / "s3.npz", "-o", out, "--allow-non-finite")
        self.assertEqual(process.returncode, 0, process.stderr)
        process = run("optimize", model, "--data", data, "-o", self.folder / "fast", "--quiet")
        self.expect_error(process, 4, "engine_failed", "output 'y'", "node 'root' (Log)", "through the original")
        self.assertFalse((self.folder / "fast" / "model.onnx").exists())

    def test_recipe_typo_names_line_and_nearest_key(self):
        model = small_model(self.folder / "m.onnx")
        (self.folder / "m.recipe.toml").write_text('task = "other"\ndescripton = "x"\n')
        process = run("run", model, arrays(self.folder / "data"), "-o", self.folder / "out")
        self.expect_error(process, 2, "invalid_argument", "descripton", "description", "2")

    def test_foreign_output_folder_is_left_alone(self):
        model = small_model(self.folder / "m.onnx")
        out = self.folder / "thesis"
        out.mkdir()
        (out / "chapter1.tex").write_text("years of work")
        process = run("optimize", model, "--data", arrays(self.folder / "data"), "-o", out)
        self.expect_error(process, 2, "invalid_argument", "--force")
        self.assertEqual(os.listdir(out), ["chapter1.tex"])

    def test_output_over_the_input_is_refused(self):
        out = self.folder / "out"
        out.mkdir()
        model = small_model(out / "model.onnx")
        before = model.read_bytes()
        process = run("optimize", model, "--data", arrays(self.folder / "data"), "-o", out, "--force")
        self.expect_error(process, 2, "invalid_argument", "output folder")
        self.assertEqual(model.read_bytes(), before)

    def test_unwritable_output(self):
        model = small_model(self.folder / "m.onnx")
        process = run("optimize", model, "--data", arrays(self.folder / "data"), "-o", "/proc/no-such-place/out")
        self.expect_error(process, 6, "io", "/proc/no-such-place/out")

    def test_full_disk_leaves_nothing(self):
        """A file system of 64 kB in a mount namespace of its own; the model takes 100."""
        small = self.folder / "small"
        small.mkdir()
        mount = f"mount -t tmpfs -o size=64k none '{small}'"
        if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode != 0:
            self.skipTest("mounting a small file system takes root")
        weight = onnx.numpy_helper.from_array(np.ones((25, 1024), np.float32), "w")
        model = save_graph(self.folder / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 25]}, {"y": [1, 1024]}, [weight])
        command = f"'{PROGRAM}' optimize '{model}' -o '{small}/out' --pairs 5 --quiet"
        process = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{mount} && {command}; code=$?; find '{small}' -type f; exit $code"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )
        self.expect_error(process, 6, "io", str(small))


if __name__ == "__main__":
    unittest.main()
