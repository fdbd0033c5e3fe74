"""Whether a task costs the same in a large run, in a long chain, and after many runs."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.flows import Shape, engine, measure, partitioned, run, source
from benchmarks.workload import arguments, folder, progress, report


def fan(at: Path, rounds: int, large: int, small: int) -> dict[str, object]:
    """Fans of two sizes, taking turns; each in a workspace of its own, after one warm-up."""
    got: dict[int, list[float]] = {large: [], small: []}
    for number in range(rounds):
        for n in (small, large):
            place = at / f"fan{number}-{n}"
            with engine(place, partitioned(n)) as made:
                run(made)
                got[n].append(run(made).per_task)
            progress(f"fan of {n:,}: {got[n][-1] * 1e3:.2f} ms a task")
    return _ratio("per_task_10k_over_100", got[large], got[small], "fan")


def chain(at: Path, rounds: int, large: int, small: int) -> dict[str, object]:
    got: dict[int, list[float]] = {large: [], small: []}
    shape: Shape = "chain"
    for number in range(rounds):
        for n in (small, large):
            (found,) = measure(_fresh(at / f"chain{number}-{n}"), shape, n)
            got[n].append(found.per_task)
            progress(f"chain of {n:,}: {found.per_task * 1e3:.2f} ms a task")
    return _ratio("chain_1000_over_100", got[large], got[small], "chain")


def history(at: Path, rounds: int, runs: int) -> dict[str, object]:
    """The same run in an empty workspace and in one with many finished runs."""
    tasks = 100
    text = source("fan", tasks)
    with (
        engine(at / "old", text) as old,
        engine(at / "new", text) as new,
    ):
        for number in range(runs):
            run(old, selection="flow.root")
            if number % 100 == 0:
                progress(f"{number:,} of {runs:,} runs")
        run(old), run(new)
        before: list[float] = []
        after: list[float] = []
        for _ in range(rounds):
            before.append(run(new).per_task)
            after.append(run(old).per_task)
            progress(f"empty {before[-1] * 1e3:.2f} ms, after {runs:,} runs {after[-1] * 1e3:.2f}")
    return _ratio("history_1000_over_0", after, before, "history")


def _ratio(name: str, above: list[float], below: list[float], what: str) -> dict[str, object]:
    large, small = statistics.median(above), statistics.median(below)
    return {
        name: round(large / small, 3),
        f"{what}_large_ms": round(large * 1e3, 3),
        f"{what}_small_ms": round(small * 1e3, 3),
    }


def _fresh(place: Path) -> Path:
    place.mkdir(parents=True)
    return place


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=["fan", "chain", "history"])
    args = parser.parse_args()
    quick = args.quick
    figures: dict[str, object] = {}
    with folder(args.dir) as at:
        if args.only in (None, "fan"):
            figures |= fan(at, 1 if quick else 3, 1_000 if quick else 10_000, 100)
        if args.only in (None, "chain"):
            figures |= chain(at, 1 if quick else 3, 200 if quick else 1_000, 100)
        if args.only in (None, "history"):
            figures |= history(at, 3 if quick else 7, 50 if quick else 1_000)
    report(figures)


if __name__ == "__main__":
    main()
