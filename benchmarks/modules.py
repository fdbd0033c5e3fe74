"""A benchmark of several modules: each measures its own figures, in a folder of its own.

A module `benchmarks/PREFIX_NAME.py` has `measure(at, quick)`, which answers with figures. One that
fills large workspaces first may have `fill(at, quick)`, which `measure` calls too and which does
nothing where it has been done: `--keep DIR --fill` does that alone, beside other work, and
`--keep DIR` measures later on a quiet machine.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.workload import arguments, folder, progress, report

Measure = Callable[[Path, bool], dict[str, object]]


def names(prefix: str) -> list[str]:
    """Of the modules that are there."""
    files = Path(__file__).parent.glob(f"{prefix}_*.py")
    return sorted(file.stem.removeprefix(f"{prefix}_") for file in files)


def collect(
    prefix: str,
    chosen: Sequence[str],
    parent: Path | None,
    *,
    quick: bool,
    kept: Path | None = None,
    fill_alone: bool = False,
) -> dict[str, object]:
    figures: dict[str, object] = {}
    for name in chosen:
        module = importlib.import_module(f"benchmarks.{prefix}_{name}")
        measure: Measure = module.measure
        progress(f"== {name}")
        with _folder(name, parent, kept) as at:
            if fill_alone:
                if fill := getattr(module, "fill", None):
                    fill(at, quick)
                continue
            added = measure(at, quick)
        twice = figures.keys() & added.keys()
        assert not twice, f"{name} measures what another module does: {sorted(twice)}"
        figures |= added
    return figures


@contextlib.contextmanager
def _folder(name: str, parent: Path | None, kept: Path | None) -> Iterator[Path]:
    if kept is None:
        with folder(parent) as at:
            yield at
    else:
        at = kept / name
        at.mkdir(parents=True, exist_ok=True)
        yield at


def main(prefix: str, description: str | None) -> None:
    parser = arguments(description)
    known = names(prefix)
    parser.add_argument("--only", choices=known, action="append", help="measure this; repeatable")
    parser.add_argument(
        "--keep", type=Path, help="keep the workspaces here: the next run with it fills none"
    )
    parser.add_argument("--fill", action="store_true", help="fill the workspaces of --keep alone")
    args = parser.parse_args()
    if args.fill and args.keep is None:
        parser.error("--fill needs --keep")
    chosen = args.only or known
    figures = collect(
        prefix, chosen, args.dir, quick=args.quick, kept=args.keep, fill_alone=args.fill
    )
    report(figures)
