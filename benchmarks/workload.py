"""What the benchmarks share: the events, the workspaces, and how figures are printed.

Every benchmark compares things in one run, taking turns, and prints medians: the
machine's mood then weighs on both sides alike. The last line of the output is one
JSON object; what people read meanwhile goes to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from arco.app import Workspace
from arco.catalog.events import AssetObserved
from arco.log.commit import Committed
from arco.storage.local import LocalStore
from arco.storage.port import Mode, Object, ObjectMeta, Store
from arco.storage.scoped import ScopedStore
from servo.contract import ulid

P = ParamSpec("P")
T = TypeVar("T")

TENANT, NAME = "bench", "work"
FILL_BATCH = 10_000


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test: the figures mean little"
    )
    parser.add_argument("--dir", type=Path, help="where to work (default: the system's for files)")
    return parser


@contextlib.contextmanager
def folder(parent: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="arco-bench-", dir=parent) as made:
        yield Path(made)


def filled_once(at: Path, fill: Callable[[], T]) -> T:
    """Fill a folder, unless an earlier run has: what `fill` returned then is beside the folder."""
    done = at.with_name(f"{at.name}-filled.json")
    if not done.exists():
        at.mkdir(parents=True, exist_ok=True)
        done.write_text(json.dumps(fill()))
    answer: T = json.loads(done.read_text())
    return answer


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def report(figures: dict[str, object]) -> None:
    print(json.dumps(figures))


def ms(seconds: Sequence[float]) -> float:
    """The median, in milliseconds."""
    return round(statistics.median(seconds) * 1e3, 4)


def timed(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
    began = time.perf_counter()
    result = call(*args, **kwargs)
    return time.perf_counter() - began, result


def asset_ids(count: int, seed: int = 1) -> list[str]:
    """Ids as a deployment would have given them, over about a day."""
    rng = random.Random(seed)
    began = 1_767_225_600_000
    return [
        ulid.encode((began + rng.randrange(86_400_000)) << 80 | rng.getrandbits(80))
        for _ in range(count)
    ]


def observed(asset_id: str, rng: random.Random) -> AssetObserved:
    rows = rng.randrange(1_000_000)
    return AssetObserved(
        asset_id=asset_id, row_count=rows, size_bytes=rows * 113, files=rng.randrange(1, 64)
    )


def observations(ids: Sequence[str], count: int, seed: int) -> list[AssetObserved]:
    """Facts about random ones of `ids`."""
    rng = random.Random(seed)
    return [observed(rng.choice(ids), rng) for _ in range(count)]


def open_workspace(at: Path, **settings: Any) -> Workspace:
    return Workspace.open(f"file://{at}", TENANT, NAME, **settings)


def fill(workspace: Workspace, ids: Sequence[str]) -> None:
    """One row for each id, merged into the base."""
    rng = random.Random(2)
    began = time.perf_counter()
    for start in range(0, len(ids), FILL_BATCH):
        workspace.ledger.append([observed(i, rng) for i in ids[start : start + FILL_BATCH]])
        drain(workspace)
    workspace.upkeep.merger.merge(everything=True)
    progress(f"{len(ids):,} rows in {time.perf_counter() - began:.1f} s")


def drain(workspace: Workspace) -> None:
    while isinstance(workspace.committer.commit(), Committed):
        pass


class CountingStore:
    """A store that counts what is read through it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.requests = 0
        self.bytes = 0

    @property
    def parallelism(self) -> int:
        return self._store.parallelism

    @property
    def url(self) -> str:
        return self._store.url

    def get(self, path: str) -> Object:
        self.requests += 1
        found = self._store.get(path)
        self.bytes += len(found.data)
        return found

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self.requests += 1
        self.bytes += length
        return self._store.get_range(path, start, length)

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        self._store.put(path, data, mode)

    def put_parts(self, path: str, parts: Iterable[bytes]) -> None:
        self._store.put_parts(path, parts)

    def head(self, path: str) -> ObjectMeta:
        self.requests += 1
        return self._store.head(path)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        self.requests += 1
        return self._store.list(prefix, start_after)

    def delete(self, path: str) -> None:
        self._store.delete(path)

    def copy(self, source: str, target: str) -> None:
        self._store.copy(source, target)

    def sign(self, path: str, expiry: timedelta) -> str:
        return self._store.sign(path, expiry)


def counted(at: Path) -> tuple[Workspace, CountingStore]:
    """A workspace that has read nothing yet, and the meter on its store."""
    meter = CountingStore(LocalStore(at))
    return Workspace(ScopedStore(meter, TENANT, NAME), TENANT, NAME), meter


def peak_rss_mib() -> float:
    """Of this program alone: getrusage would count the parent that it was forked from."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
