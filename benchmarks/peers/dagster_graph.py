"""A graph of no-op assets in Dagster, materialized in one process.

`sqlite` is Dagster's default instance, which is durable; `ephemeral` keeps everything in
memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.graph import arguments, report


def no_op(dagster: Any, name: str, upstream: list[Any], started: Path | None = None) -> Any:
    """An asset; the first one writes down when it started."""

    @dagster.asset(name=name, deps=upstream)
    def node() -> None:
        if started is not None:
            started.write_text(repr(time.time()))

    return node


def assets(dagster: Any, shape: str, n: int, started: Path) -> list[Any]:
    root = no_op(dagster, "root", [], started)
    if shape == "chain":
        chain = [root]
        for number in range(1, n):
            chain.append(no_op(dagster, f"step_{number}", [chain[-1]]))
        return chain
    middle = [no_op(dagster, f"middle_{number}", [root]) for number in range(n)]
    return [root, *middle, no_op(dagster, "sink", middle)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--mode", choices=["ephemeral", "sqlite"], required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        os.environ["DAGSTER_HOME"] = folder
        import dagster

        graph = assets(dagster, given.shape, given.n, home / "started")
        instances = dagster.DagsterInstance
        opened = instances.get() if given.mode == "sqlite" else instances.ephemeral()
        with opened as instance:
            began = time.time()
            ok = dagster.materialize(graph, instance=instance).success
            wall_s = time.time() - began
        first_s = float((home / "started").read_text()) - began
    report(tasks=len(graph), wall_s=wall_s, first_s=first_s, ok=ok)


if __name__ == "__main__":
    main()
