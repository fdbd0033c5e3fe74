"""A graph of no-op tasks in Prefect, in one process, with its default task runner.

With PREFECT_API_URL it reports to that server; otherwise Prefect starts one for the run.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("DO_NOT_TRACK", "1")

from prefect import flow, task

from benchmarks.peers.graph import arguments, report

started: list[float] = []


@task
def root() -> int:
    started.append(time.time())
    return 0


@task
def step(upstream: object) -> int:
    return 0


@flow
def fan(n: int) -> int:
    first = root.submit()
    middle = [step.submit(first) for _ in range(n)]
    return int(step.submit(middle).result())


@flow
def chain(n: int) -> int:
    last = root.submit()
    for _ in range(n - 1):
        last = step.submit(last)
    return int(last.result())


def main() -> None:
    given = arguments(__doc__).parse_args()
    run, tasks = (chain, given.n) if given.shape == "chain" else (fan, given.n + 2)
    began = time.time()
    ok = run(given.n) == 0
    report(tasks=tasks, wall_s=time.time() - began, first_s=started[0] - began, ok=ok)


if __name__ == "__main__":
    main()
