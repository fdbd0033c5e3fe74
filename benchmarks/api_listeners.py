"""1,000 listeners of the event stream, 100 events a second: the memory of the server.

100 API keys with ten streams each. All listeners are in a process of its own, which counts what
arrives: every event has to reach every listener. The figure is the most that the server's process
had resident, from its start on.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from arco.catalog.events import AssetCreated
from arco.security.permissions import Role
from benchmarks.api_requests import BASE, serving
from benchmarks.http_load import ROOT, cpu_s
from benchmarks.workload import drain, open_workspace, progress

EACH = 10
"""Streams of one caller: the server's own bound."""
BATCH_S = 0.5


def measure(at: Path, quick: bool) -> dict[str, object]:
    callers, seconds, per_second = (5, 3, 100) if quick else (100, 20, 100)
    workspace = open_workspace(at)
    security = workspace.commands.security
    workspace.commands.catalog.create_namespace("sales")
    keys = [str(security.create_key(f"k{n}", Role.VIEWER).text) for n in range(callers)]
    events = int(seconds * per_second)
    with serving(at) as ours:
        listening = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.api_listeners", str(ours.port), str(events)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert listening.stdin is not None and listening.stdout is not None
        listening.stdin.write(json.dumps(keys))
        listening.stdin.close()
        assert listening.stdout.readline() == "listening\n"
        before, began = cpu_s(ours.process.pid), time.perf_counter()
        for start in range(0, events, int(per_second * BATCH_S)):
            numbers = range(start, min(start + int(per_second * BATCH_S), events))
            workspace.ledger.append(
                [AssetCreated(namespace="sales", name=f"t{n}") for n in numbers]
            )
            drain(workspace)
            time.sleep(max(0.0, began + (numbers[-1] + 1) / per_second - time.perf_counter()))
        found = json.loads(listening.stdout.read())
        took = time.perf_counter() - began
        cpu = (cpu_s(ours.process.pid) - before) / took
        status = Path(f"/proc/{ours.process.pid}/status").read_text()
    assert listening.wait(60) == 0
    if found["missed"]:
        raise RuntimeError(f"{found['missed']} listeners missed events: {found}")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    progress(f"{callers * EACH:,} listeners heard {events:,} events each in {took:.1f} s")
    return {
        "sse_1000_rss_mib": round(int(peak.split()[1]) / 1024, 1),
        "sse_1000_cpu": round(cpu, 3),
        "sse_1000_events_per_s": round(events / took, 1),
    }


# -- the listeners ---------------------------------------------------------------------------


class _Listener(asyncio.Protocol):
    def __init__(self, key: str, port: int) -> None:
        self._head = (
            f"GET {BASE}/events?type=catalog.asset_created HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Authorization: Bearer {key}\r\n\r\n"
        ).encode()
        self._end = b""
        self.events = 0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        text = self._end + data
        if not self.opened.done() and b"retry: " in text:  # the first thing in a stream
            self.opened.set_result(None)
        elif b"HTTP/1.1 " in text and b"HTTP/1.1 200" not in text:
            self.opened.set_exception(RuntimeError(text.decode("utf-8", "replace")))
        self.events += text.count(b"\nevent: ")
        self._end = text[-7:]  # a needle that begins here is not counted yet


async def _listen(port: int, events: int, keys: list[str]) -> None:
    loop = asyncio.get_running_loop()
    listeners: list[_Listener] = []
    for key in keys:
        for _ in range(EACH):
            _, listener = await loop.create_connection(
                lambda key=key: _Listener(key, port),  # type: ignore[misc]
                "127.0.0.1",
                port,
            )
            listeners.append(listener)
            await listener.opened
    await asyncio.sleep(1.0)
    print("listening", flush=True)
    deadline = loop.time() + 120
    while loop.time() < deadline and any(each.events < events for each in listeners):
        await asyncio.sleep(0.1)
    counts = [each.events for each in listeners]
    print(json.dumps({"missed": sum(n != events for n in counts), "least": min(counts)}))


if __name__ == "__main__":
    uvloop.run(_listen(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.stdin.read())))
