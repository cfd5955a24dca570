"""How the command line answers to right and wrong usage."""

import unittest

from program import Case, run

COMMANDS = ["optimize", "quantize", "prune", "run", "sensitivity", "inspect", "calibrate", "compare", "bench", "doctor", "completion"]


class Usage(Case):
    def test_version_names_every_component(self):
        process = run("--version")
        self.assertEqual(process.returncode, 0)
        for component in ("tempera ", "openvino ", "torch ", "onnx "):
            self.assertIn(component, process.stdout)

    def test_help_lists_every_command_and_no_hidden_one(self):
        process = run("--help")
        self.assertEqual(process.returncode, 0)
        for command in COMMANDS:
            self.assertIn(command, process.stdout)
        self.assertNotIn("probe", process.stdout)

    def test_each_command_has_help_with_an_example_or_options(self):
        for command in COMMANDS:
            process = run(command, "--help")
            self.assertEqual(process.returncode, 0, command)
            self.assertIn("--help", process.stdout)

    def test_unknown_option_names_the_nearest(self):
        process = run("optimize", "m.onnx", "-o", "out", "--max-los", "5%")
        self.expect_error(process, 2, "invalid_argument", "unknown option '--max-los'", "--max-loss")

    def test_unknown_command_names_the_nearest(self):
        self.expect_error(run("optimise"), 2, "invalid_argument", "unknown command 'optimise'", "optimize")

    def test_no_command_is_an_error(self):
        self.expect_error(run(), 2, "invalid_argument", "a command is missing", "tempera --help")

    def test_missing_required_option(self):
        self.expect_error(run("optimize", "m.onnx"), 2, "invalid_argument", "--out")

    def test_unknown_engine_names_the_nearest(self):
        self.expect_error(run("run", "m.onnx", "x.npy", "--engine", "openvin"), 2, "not_found")

    def test_completion_scripts_name_commands_and_options(self):
        for shell in ("bash", "zsh", "fish"):
            process = run("completion", shell)
            self.assertEqual(process.returncode, 0)
            self.assertIn("optimize", process.stdout)
            self.assertIn("max-loss", process.stdout)
            self.assertNotIn("probe", process.stdout)

    def test_doctor_names_cpu_and_engines(self):
        process = run("doctor")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("openvino", process.stdout)
        self.assertIn("torch", process.stdout)


if __name__ == "__main__":
    unittest.main()
