"""A small load generator: some connections, each with one request under way, for a while.

    python -m benchmarks.http_load PORT SECONDS CLIENTS < request

It is a process of its own, so that it does not take turns with the server, and reads of an
answer no more than its status and its length: what it costs is small, and the same for all
servers. The last line is a JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).resolve().parents[1]


class _Client(asyncio.Protocol):
    def __init__(self, requests: list[bytes], first: int, seconds: list[float]) -> None:
        self._requests = requests
        self._next = first
        self._seconds = seconds
        self._data = b""
        self._began = 0.0
        self.statuses: Counter[int] = Counter()
        self.bytes = 0
        self.is_over = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._data = b""
        self._began = time.perf_counter()
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += 1

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self._data.lower().find(b"content-length: ", 0, end)
        length = int(self._data[at + 16 : self._data.find(b"\r", at)]) if at >= 0 else 0
        if len(self._data) < end + 4 + length:
            return
        self._seconds.append(time.perf_counter() - self._began)
        self.statuses[int(self._data[9:12])] += 1
        self.bytes += length
        if self.is_over:
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def _load(port: int, duration_s: float, clients: int, requests: list[bytes]) -> Any:
    loop = asyncio.get_running_loop()
    seconds: list[float] = []
    each = len(requests) // clients
    made = [
        await loop.create_connection(
            lambda first=number * each: _Client(requests, first, seconds),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        for number in range(clients)
    ]
    began = time.perf_counter()
    await asyncio.sleep(duration_s)
    for _, client in made:
        client.is_over = True
    await asyncio.wait([client.closed for _, client in made], timeout=30)
    took = time.perf_counter() - began
    statuses: Counter[int] = sum((client.statuses for _, client in made), Counter())
    seconds.sort()
    return {
        "rps": len(seconds) / took,
        "requests": len(seconds),
        "p50_ms": seconds[len(seconds) // 2] * 1e3,
        "p95_ms": seconds[int(len(seconds) * 0.95)] * 1e3,
        "statuses": {str(status): count for status, count in statuses.items()},
        "bytes": sum(client.bytes for _, client in made) // max(1, len(seconds)),
    }


def request(path: str, port: int, *, method: str = "GET", body: bytes = b"", **headers: str) -> str:
    """The text of a request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]) + body.decode()


def load(port: int, seconds: float, clients: int, requests: list[str]) -> dict[str, Any]:
    """Send these requests in turn, from another process. Raises if any was refused."""
    command = [sys.executable, "-m", "benchmarks.http_load", str(port), str(seconds), str(clients)]
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps(requests), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if any(not status.startswith("2") for status in found["statuses"]):
        raise RuntimeError(f"answers were {found['statuses']}")
    return found


def cpu_s(pid: int) -> float:
    """CPU time of a process, by Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def cpu_of_group_s(pid: int) -> float:
    """CPU time of all processes of a group that are there; `pid` leads it."""
    total = 0.0
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if int((each / "stat").read_text().rpartition(")")[2].split()[2]) == pid:
                total += cpu_s(int(each.name))
    return total


def main() -> None:
    port, seconds, clients = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    requests = [text.encode() for text in json.loads(sys.stdin.read())]
    print(json.dumps(uvloop.run(_load(port, seconds, clients, requests))))


if __name__ == "__main__":
    main()
