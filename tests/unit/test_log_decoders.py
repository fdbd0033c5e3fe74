"""msgspec crashes the process if two threads make the first decoders of a struct together."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOWLY = """
import threading, time
from typing import ClassVar
import msgspec
from arco.log import manifest
from arco.log.envelope import EventTypes, Payload

class Inner(msgspec.Struct):
    a: int

class Outer(msgspec.Struct):
    format: int
    inner: Inner
    more: list[Inner] = []

class Happened(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "test.happened"
    inner: Inner
    more: tuple[Inner, ...] = ()

def slow(frame, event, arg):
    if frame.f_code.co_name == "get_class_annotations":
        time.sleep(0.1)

threading.settrace(slow)
raw = msgspec.json.encode({"format": manifest.FORMAT, "inner": {"a": 1}, "more": [{"a": 2}]})
"""
MANIFEST = "def decode(): manifest.decode(raw, Outer, 'path')"
EVENT = "def decode(): EventTypes([Happened]).decode('test.happened', 1, raw)"
TOGETHER = """
threads = [threading.Timer(0.05 * n, decode) for n in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"""


@pytest.mark.parametrize("what", [MANIFEST, EVENT])
def test_threads_may_decode_for_the_first_time_together(what: str) -> None:
    code = f"{SLOWLY}{what}{TOGETHER}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
