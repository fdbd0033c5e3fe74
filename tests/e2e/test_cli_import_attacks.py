"""What modules do to their process when they are imported: the command says so, and goes on."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.e2e.conftest import Servo

GOOD = """
from servo import asset


@asset(namespace="flow")
def good() -> None: ...
"""

ATTACKS = {
    "exits": ("import os, servo; os._exit(0)", "the process ended with exit status 0"),
    "crashes": ("import ctypes, servo; ctypes.string_at(0)", "the process ended with SIGSEGV"),
    "kills": ("import os, servo; os.kill(os.getpid(), 9)", "the process ended with SIGKILL"),
    "closes": (
        "import os, servo; os.closerange(3, 200)",
        "the process closed a file descriptor that is not its own",
    ),
    "leaves": ("import sys, servo; sys.exit(0)", "importing bad exits the program"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_module_that_ends_its_process_is_a_problem_with_its_file(servo: Servo, name: str) -> None:
    text, message = ATTACKS[name]
    (servo.directory / "bad.py").write_text(text)
    (servo.directory / "flow.py").write_text(GOOD)
    out = servo.run("validate", "--json")
    assert out.returncode == 1, out
    (problem,) = json.loads(out.stdout)["problems"]
    assert (problem["file"], problem["line"]) == ("bad.py", 1)
    assert problem["message"].endswith(message)
    for command in (["deploy"], ["run", "--deploy", "flow.good"]):
        error = servo.error(*command, code=2)
        assert message in error["message"]
    assert servo.json("deployments")["deployments"] == []


def test_what_a_module_leaves_behind_keeps_no_command_waiting(servo: Servo) -> None:
    pids = servo.directory / "pids"
    (servo.directory / "bad.py").write_text(
        "import os, threading, time, servo\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "print('printed by a module')\n"
        "if os.fork() == 0:\n"
        f"    open({str(pids)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
        "    os._exit(0)\n"
        f"while not os.path.exists({str(pids)!r}): time.sleep(0.01)\n"
    )
    (servo.directory / "flow.py").write_text(GOOD)
    out = servo.run("validate", "--json")
    assert json.loads(out.stdout)["valid"], out
    assert "printed by a module" in out.stderr
    deadline = time.monotonic() + 30
    while _is_alive(int(pids.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_files_of_the_folder_are_not_taken_for_libraries(servo: Servo) -> None:
    (servo.directory / "flow.py").write_text(GOOD)
    (servo.directory / "types.py").write_text("raise RuntimeError('nobody imports this')\n")
    assert servo.json("validate")["valid"]
    (servo.directory / "pyarrow.py").write_text("import servo\n")
    (problem,) = servo.json("validate", code=1)["problems"]
    assert problem["message"] == "the module 'pyarrow' is hidden by another of that name"


def test_text_that_is_not_unicode_is_reported(servo: Servo) -> None:
    (servo.directory / "bad.py").write_text("import servo\nraise ValueError('a \\udc80 b')\n")
    (problem,) = servo.json("validate", code=1)["problems"]
    assert problem["message"] == "importing bad fails: ValueError: a \\udc80 b"
    assert (problem["file"], problem["line"]) == ("bad.py", 2)


def test_ctrl_c_ends_a_command_whose_module_never_ends(servo: Servo) -> None:
    started = servo.directory / "started"
    (servo.directory / "bad.py").write_text(
        f"import re, servo\nopen({str(started)!r}, 'w').close()\n"
        're.match(r"(a+)+$", "a" * 60 + "b")\n'
    )
    process = servo.start("validate")
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


def test_modules_see_neither_keys_nor_credentials_of_the_store(servo: Servo) -> None:
    (servo.directory / "bad.py").write_text(
        "import os, servo\n"
        "names = {'ARCO_TASK_KEYS', 'ARCO_TOKEN', 'AWS_SECRET_ACCESS_KEY'} & set(os.environ)\n"
        "assert not names, names\nassert os.environ['AWS_REGION'] == 'eu'\n"
    )
    (servo.directory / "flow.py").write_text(GOOD)
    servo.env |= {
        "ARCO_STORE": "s3://bucket/that/nobody/has",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu",
        "ARCO_TASK_KEYS": "1:00",
        "ARCO_TOKEN": "arco_x",
    }
    out = servo.run("validate", "--json")
    assert json.loads(out.stdout)["valid"], out


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
