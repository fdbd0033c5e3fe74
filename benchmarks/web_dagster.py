"""Dagster's webserver with many assets, for `benchmarks/web.py`: `make peers` installs it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".peers" / "dagster-webserver"
SCRIPT = ROOT / "benchmarks" / "peers" / "dagster_assets.py"
START_S = 180
FIRST_ROW = "document.querySelector(\"a[href*='/assets/area/a00000']\")"
FIRST_PARTITIONS = "document.body && document.body.textContent.includes('2015-01-07')"
ASSETS_PATH = "/assets"
PARTITIONS_PATH = "/assets/shop/visits?view=partitions"
WELCOMED = "localStorage.setItem('communityNux', '\"1\"');"
"""A dialog that a new browser is shown."""


@contextlib.contextmanager
def webserver(at: Path, assets: int, days: int, shops: int) -> Iterator[str]:
    """Its origin, once it answers."""
    if not HOME.exists():
        raise FileNotFoundError(f"{HOME}: make peers")
    script = list(map(str, (HOME / "bin/python", SCRIPT, at, assets, days, shops)))
    subprocess.run(script, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = str(HOME / "bin/dagster-webserver")
    command = [program, "-f", "flow.py", "-h", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "DAGSTER_HOME": str(at)}
    with (at / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=at, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/server_info")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=30).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
