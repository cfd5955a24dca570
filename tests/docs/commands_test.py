"""The commands shown in README.md and docs/*.md.

Each `tempera` line of a shell block (indented by four spaces, or fenced) must parse; each option in running text must exist.
Lines that inspect or run a model of the repository are run, in a folder that holds what they name.
"""

import os
import pathlib
import re
import shlex
import struct
import subprocess
import tempfile
import unittest
import zlib

PROGRAM = os.environ["TEMPERA_PROGRAM"]
SOURCE = pathlib.Path(os.environ["TEMPERA_SOURCE_DIR"])
DOCUMENTS = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
FENCE = re.compile(r"\s*```")


def tempera(*arguments, cwd=None):
    return subprocess.run(
        [PROGRAM, *arguments], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )


def block_lines(text):
    """Lines of code blocks, continued lines joined, as (line number, line)."""
    fenced = False
    joined = ""
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            joined += line.strip()
            if joined.endswith("\\"):
                joined = joined[:-1]
            else:
                yield number, joined
                joined = ""


def commands_in(text):
    """The words after `tempera` of each command of a block; an explanation stands behind two spaces or a #."""
    for number, line in block_lines(text):
        words = re.split(r"\s{2,}|\s#", line)[0]
        if words.startswith("tempera "):
            yield number, shlex.split(words)[1:]


def inline_commands(text):
    """`tempera command --option ...` in running text, as words; it may leave out what is required."""
    for match in re.finditer(r"`tempera ([^`]+)`", text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1).split()


def small_png(path):
    """An 8-bit RGB picture of 48 x 32, a ramp: so small that a super-resolution network takes a moment."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(c for x in range(48) for c in (5 * x, 8 * y, 255 - 5 * x)) for y in range(32))
    header = struct.pack(">IIBBBBB", 48, 32, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


class Commands(unittest.TestCase):
    def all_commands(self):
        for document in DOCUMENTS:
            for number, words in commands_in(document.read_text()):
                yield f"{document.relative_to(SOURCE)}:{number}", words

    def test_the_check_itself_finds_mistakes(self):
        self.assertEqual(
            list(commands_in("text\n    tempera run a.onnx \\\n      b.png   explained\n\n```sh\ntempera doctor # x\n```\n")),
            [(3, ["run", "a.onnx", "b.png"]), (6, ["doctor"])],
        )
        for wrong in (["optimise", "m.onnx"], ["optimize", "m.onnx", "-o", "out", "--max-los", "5%"], ["run"]):
            self.assertEqual(tempera("--parse-only", *wrong).returncode, 2, wrong)

    def test_every_command_parses(self):
        commands = list(self.all_commands())
        self.assertGreater(len(commands), 10)
        for place, words in commands:
            with self.subTest(place=place):
                process = tempera("--parse-only", *words)
                self.assertEqual(process.returncode, 0, process.stderr)

    def test_options_in_running_text_exist(self):
        helps = {}
        checked = 0
        for document in DOCUMENTS:
            for number, words in inline_commands(document.read_text()):
                options = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
                command = [word for word in words[:1] if not word.startswith("-")]
                if command and command[0] != command[0].lower():
                    continue  # a placeholder
                key = tuple(command)
                if key not in helps:
                    process = tempera(*command, "--help")
                    self.assertEqual(process.returncode, 0, process.stderr)
                    helps[key] = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", process.stdout))
                for option in options:
                    checked += 1
                    with self.subTest(place=f"{document.relative_to(SOURCE)}:{number}"):
                        self.assertIn(option, helps[key])
        self.assertGreater(checked, 3)

    def test_commands_on_models_of_the_repository_run(self):
        ran = 0
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            for name in ("models", "examples"):
                (folder / name).symlink_to(SOURCE / name)
            small_png(folder / "photo.png")
            (folder / "photo.jpg").symlink_to(SOURCE / "examples" / "photos" / "rocket.jpg")
            for place, words in self.all_commands():
                fast = words[0] in ("run", "inspect") and words[1].startswith("models/") or words[0] == "doctor"
                if fast:
                    ran += 1
                    with self.subTest(place=place):
                        process = tempera(*words, cwd=folder)
                        self.assertEqual(process.returncode, 0, process.stderr)
                        self.assertNotEqual(process.stdout, "")
        self.assertGreaterEqual(ran, 3)


if __name__ == "__main__":
    unittest.main()
