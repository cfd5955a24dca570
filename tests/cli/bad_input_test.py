"""Bad models, data, recipes and folders: a clear error, the right exit code, nothing written."""

import os
import unittest

import numpy as np

from program import Case, arrays, run, small_model


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


if __name__ == "__main__":
    unittest.main()
