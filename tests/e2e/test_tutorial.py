"""`docs/tutorial.md`, done as it says: each command, and each change of a file."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Servo
from tests.e2e.test_dev import Dev, gone

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_BLOCK = re.compile(r'^```(console|python|diff)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
SMALL = """
[spark]
master = "local[2]"
fast_start = true

[spark.conf]
"spark.driver.memory" = "1g"
"""


class Reader:
    """Types what the page says. `servo dev` goes on in a terminal of its own."""

    def __init__(self, servo: Servo) -> None:
        self.servo = servo
        self.dev: Dev | None = None
        self.typed: list[str] = []

    def change(self, file: str, text: str, *, is_diff: bool) -> None:
        path = self.servo.directory / file
        if is_diff:
            old = re.findall(r"^-(.*)$", text, re.M)
            new = re.findall(r"^\+(.*)$", text, re.M)
            before = path.read_text()
            assert before.count(old[0]) == 1
            text = before.replace(old[0], new[0])
        path.write_text(text)
        assert self.dev is not None
        self.dev.saved("DEPLOYED")

    def type(self, line: str) -> None:
        expected = 1 if "# exits with 1" in line else 0
        words = shlex.split(line, comments=True)
        self.typed.append(line)
        match words:
            case ["pip", *_]:
                return
            case ["cd", folder]:
                self.servo.directory /= folder
                with (self.servo.directory / "arco.toml").open("a") as file:
                    file.write(SMALL)
            case ["servo", "dev"]:
                process = self.servo.start("dev", "--port", "0", "--no-open", "--json")
                self.dev = Dev(process)
                self.dev.saved("DEPLOYED")
            case ["servo", *words]:
                done = self.servo.run(*map(self._filled, words))
                assert done.returncode == expected, (line, done.stdout, done.stderr)
            case ["python", *rest]:
                # `test_init.py` runs the tests of the same project.
                command = [sys.executable, *rest, "--collect-only", "-p", "no:cacheprovider"]
                subprocess.run(command, cwd=self.servo.directory, check=True, capture_output=True)
            case _:
                raise AssertionError(f"what is {line!r}?")

    def _filled(self, word: str) -> str:
        if word != "ID":
            return word
        outputs = self.servo.json("quarantine", "list")["outputs"]
        return str(outputs[0]["materialization_id"])


@pytest.mark.spark
@pytest.mark.xdist_group("spark_alone")
def test_the_tutorial_can_be_done_as_it_says(tmp_path: Path) -> None:
    servo = Servo(tmp_path)
    del servo.env["ARCO_STORE"]
    reader = Reader(servo)
    try:
        for kind, title, text in _BLOCK.findall(PAGE.read_text("utf-8")):
            if kind == "console":
                for line in text.splitlines():
                    reader.type(line.removeprefix("$ "))
            else:
                assert title, "a change says which file it is about"
                reader.change(title, text, is_diff=kind == "diff")
        assert len(reader.typed) > 25
        best = servo.json("show", "marts.best")
        assert len(best["rows"]) == 1
        assert servo.json("status")["held"] == []
        assert reader.dev is not None
        children = reader.dev.descendants()
        reader.dev.process.send_signal(signal.SIGINT)
        assert reader.dev.process.wait(120) == 0
        assert children
        assert gone(children)
    finally:
        servo.end()
