"""An engine in a process of its own, which can be killed: orchestrator, worker and merges.

`python -m benchmarks.engine_process DIR` serves the workspace in a folder until SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from arco.cli.allocator import CACHED_BYTES, use_little_memory

ROOT = Path(__file__).resolve().parents[1]
TENANT, NAME = "bench", "main"


def store_url(at: Path) -> str:
    return f"file://{at}/store"


class EngineProcess:
    def __init__(self, at: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.engine_process", str(at)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(command, cwd=ROOT, env=env)
        self.peak_mib = 0.0

    def look(self) -> None:
        """Note its greatest memory so far."""
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"the engine has ended with {code}")
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        self.peak_mib = int(line.split()[1]) / 1024

    def end(self, number: signal.Signals) -> None:
        self.look()
        self._process.send_signal(number)
        self._process.wait()

    def stop(self) -> None:
        """Kill it, if it is still there."""
        self._process.kill()
        self._process.wait()


def serve(at: Path) -> None:
    from arco.app import Workspace
    from arco.engine import LocalEngine

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    workspace = Workspace.open(store_url(at), TENANT, NAME, cache_budget_bytes=CACHED_BYTES)
    with LocalEngine(workspace).running():
        stop.wait()


if __name__ == "__main__":
    use_little_memory()  # as `servo orchestrator` does, before Arrow is imported
    serve(Path(sys.argv[1]))
