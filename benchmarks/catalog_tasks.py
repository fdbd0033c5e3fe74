"""What the catalog adds to a small task: registry of schemas, contract, flow of personal data.

Three workspaces have the same two assets with many partitions, whose tasks return a row of 20
columns: without a registry or a policy; with the registry and the check of schemas; and with a
contract of all columns and a policy for personal data as well. Their engines run side by side in
this process and are asked in turns, each turn in another order. CPU time is compared, of this
process and of those in which tasks run, since wall time on a busy machine says little; each turn
gives a ratio, and the figure is the median of these.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.engine import LocalEngine
from arco.execution.events import OutputRecorded
from arco.orchestration import derived
from benchmarks.flows import engine, run
from benchmarks.workload import arguments, folder, progress, report

WITHOUT, REGISTRY, ALL = "without", "registry", "all"
OPTIONS = {
    WITHOUT: 'compatibility="none", personal_data="allow"',
    REGISTRY: 'personal_data="allow"',
    ALL: 'personal_data="warn"',
}
SOURCE = """
import pyarrow as pa
from servo import asset, AssetIn, column, static

KEYS = static("key", [f"k{{n:04}}" for n in range({tasks})])
NAMES = [f"column_{{n:02}}" for n in range(20)]
COLUMNS = [column(name, "long", pii="email" if name == NAMES[0] else "") for name in NAMES]
ROW = pa.table({{name: [1] for name in NAMES}})

@asset(namespace="flow", partitions=KEYS, columns=COLUMNS, {options})
def people() -> pa.Table:
    return ROW

@asset(namespace="flow", partitions=KEYS, columns=COLUMNS, {options})
def mails(people: AssetIn) -> pa.Table:
    return people.arrow()
"""
CONTRACT = """
from servo import contract

contract(mails, version="1.0.0", consumers=["finance@example.org"], columns=COLUMNS)
"""


def measure(at: Path, quick: bool) -> dict[str, object]:
    tasks, rounds = (10, 3) if quick else (60, 15)
    costs: dict[str, list[float]] = {name: [] for name in OPTIONS}
    with contextlib.ExitStack() as stack:
        engines = {
            name: stack.enter_context(_engine(at / name, tasks, options))
            for name, options in OPTIONS.items()
        }
        for name, each in engines.items():
            _cpu_ms(each, name)  # processes are there, and schemas registered
        for number in range(rounds):
            names = list(OPTIONS)
            for name in names[number % 3 :] + names[: number % 3]:
                costs[name].append(_cpu_ms(engines[name], name))
            figures = ", ".join(f"{name} {costs[name][-1]:.2f}" for name in OPTIONS)
            progress(f"round {number + 1}: {figures} ms of CPU a task")
    return {
        "task_overhead_with_over_without": _ratio(costs[ALL], costs[WITHOUT]),
        "task_registry_over_without": _ratio(costs[REGISTRY], costs[WITHOUT]),
        "task_cpu_ms_without": round(statistics.median(costs[WITHOUT]), 3),
        "task_cpu_ms_with": round(statistics.median(costs[ALL]), 3),
    }


def _engine(at: Path, tasks: int, options: str) -> contextlib.AbstractContextManager[LocalEngine]:
    at.mkdir()
    contract = CONTRACT if options == OPTIONS[ALL] else ""
    return engine(at, SOURCE.format(tasks=tasks, options=options) + contract, slots=1)


def _ratio(ones: list[float], others: list[float]) -> float:
    pairs = zip(ones, others, strict=True)
    return round(statistics.median(one / other for one, other in pairs), 3)


def _cpu_ms(of: LocalEngine, name: str) -> float:
    """CPU time of one task, in a run of all of them."""
    with _registry(name != WITHOUT):
        before = _cpu_s()
        done = run(of)
        return (_cpu_s() - before) / done.n * 1e3


@contextlib.contextmanager
def _registry(is_on: bool) -> Iterator[None]:
    """Whether commits register the schemas of outputs. Only the engine that is asked commits."""
    observe = derived.DECISIONS.on[OutputRecorded]
    if not is_on:
        del derived.DECISIONS.on[OutputRecorded]
    try:
        yield
    finally:
        derived.DECISIONS.on[OutputRecorded] = observe


def _cpu_s() -> float:
    """Of this process and all below it, by Linux."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))  # children that ended as well
    own = [pid for pid in ticks if _is_below(pid, os.getpid(), parents)]
    return sum(ticks[pid] for pid in own) / os.sysconf("SC_CLK_TCK")


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid not in (ancestor, 0):
        pid = parents.get(pid, 0)
    return pid == ancestor


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
