"""A benchmark of several modules: each measures its own figures, in a folder of its own.

A module `benchmarks/PREFIX_NAME.py` has `measure(at, quick)`, which answers with figures.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.workload import arguments, folder, progress, report

Measure = Callable[[Path, bool], dict[str, object]]


def names(prefix: str) -> list[str]:
    """Of the modules that are there."""
    files = Path(__file__).parent.glob(f"{prefix}_*.py")
    return sorted(file.stem.removeprefix(f"{prefix}_") for file in files)


def collect(
    prefix: str, chosen: Sequence[str], parent: Path | None, *, quick: bool
) -> dict[str, object]:
    figures: dict[str, object] = {}
    for name in chosen:
        measure: Measure = importlib.import_module(f"benchmarks.{prefix}_{name}").measure
        progress(f"== {name}")
        with folder(parent) as at:
            added = measure(at, quick)
        twice = figures.keys() & added.keys()
        assert not twice, f"{name} measures what another module does: {sorted(twice)}"
        figures |= added
    return figures


def main(prefix: str, description: str | None) -> None:
    parser = arguments(description)
    known = names(prefix)
    parser.add_argument("--only", choices=known, action="append", help="measure this; repeatable")
    args = parser.parse_args()
    report(collect(prefix, args.only or known, args.dir, quick=args.quick))
