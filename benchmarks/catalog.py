"""The figures of the catalog's depth: each module measures its own, in a folder of its own.

    python -m benchmarks.catalog [--quick] [--only search]

A module `benchmarks/catalog_NAME.py` has `measure(at, quick)`, which answers with figures.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.workload import arguments, folder, progress, report

Measure = Callable[[Path, bool], dict[str, object]]


def names() -> list[str]:
    """Of the modules that are there."""
    files = Path(__file__).parent.glob("catalog_*.py")
    return sorted(file.stem.removeprefix("catalog_") for file in files)


def collect(chosen: Sequence[str], parent: Path | None, *, quick: bool) -> dict[str, object]:
    figures: dict[str, object] = {}
    for name in chosen:
        measure: Measure = importlib.import_module(f"benchmarks.catalog_{name}").measure
        progress(f"== {name}")
        with folder(parent) as at:
            added = measure(at, quick)
        twice = figures.keys() & added.keys()
        assert not twice, f"{name} measures what another module does: {sorted(twice)}"
        figures |= added
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=names(), action="append", help="measure this; repeatable")
    args = parser.parse_args()
    report(collect(args.only or names(), args.dir, quick=args.quick))


if __name__ == "__main__":
    main()
