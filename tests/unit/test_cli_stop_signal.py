"""A signal ends a command, whichever of its threads gets it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, threading, time
from arco.cli.stop_signal import stop_on_signal

stop = stop_on_signal()

def send():
    time.sleep(0.1)  # until the main thread waits
    signal.pthread_kill(threading.get_ident(), signal.{name})

threading.Thread(target=send).start()
stop.wait()
print("ended")
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signal_that_another_thread_gets_ends_the_wait_of_the_main_thread(name: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(name=name)]
    result = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "ended\n"
