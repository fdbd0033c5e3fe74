"""What `servo plan`, `servo run` and `servo backfill` select."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from arco.cli import deferral
from arco.cli.options import OptionGroup, argument, flag, option

if deferral.LOADED:
    from arco.errors import Invalid
    from arco.orchestration.plan import PlanRequest


Selection = Annotated[
    list[str],
    argument(
        "SELECTION",
        "Assets: sales.orders, +sales.orders (with upstreams), sales.orders+ (with "
        "downstreams), sales.*, tag:tier=gold, group:marts, or '*'.",
    ),
]
Partitions = Annotated[
    list[str] | None,
    option(
        "RANGE",
        "date=2025-01-01..2025-01-31, region=eu, date=latest. Repeatable; @FILE reads one "
        "range per line (@- reads stdin).",
        "--partition",
        "-p",
    ),
]
Exclude = Annotated[list[str] | None, option("SELECTION", "Exclude these assets. Repeatable.")]
Force = Annotated[bool, flag("--force", "Also run tasks that are up to date.")]
Config = Annotated[
    list[str] | None,
    option(
        "NAME=VALUE",
        "Override a configuration value in the assets that declare it. Repeatable.",
        "--config",
    ),
]
MaxTasks = Annotated[int, option("N", "Maximum number of tasks; a larger plan is refused.", min=1)]


@dataclass(frozen=True)
class PlanOptions(OptionGroup):
    selection: Selection
    partition: Partitions = None
    exclude: Exclude = None
    force: Force = False
    config: Config = None

    def request(self, max_tasks: int = 1) -> PlanRequest:
        _check_star(self.selection)
        return PlanRequest(
            selection=tuple(self.selection),
            exclude=tuple(self.exclude or ()),
            partitions=tuple(text for each in self.partition or () for text in _ranges(each)),
            force=self.force,
            config=dict(_pair(text) for text in self.config or ()),
            max_tasks=max_tasks,
        )


def _check_star(selection: list[str]) -> None:
    """Refuse file names, which a shell makes of an unquoted star."""
    files = sorted(path.name for path in Path.cwd().iterdir() if not path.name.startswith("."))
    if files and sorted(selection) == files:
        raise Invalid(
            f"the selection is the files of this folder ({', '.join(files[:3])}"
            + (", …)" if len(files) > 3 else ")"),
            hint="the shell has expanded the star; quote it: '*'",
        )


def _ranges(text: str) -> list[str]:
    """The text itself, or the lines of the file that it names."""
    if not text.startswith("@"):
        return [text]
    try:
        read = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"--partition {text}: {error}", hint="write @FILE, or @- for stdin") from None
    ranges = [line for line in read.splitlines() if line.strip()]
    if not ranges:
        raise Invalid(
            f"--partition {text}: the file has no ranges", hint="write one range per line"
        )
    return ranges


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Invalid(f"{text!r} is not a configuration value", hint="write NAME=VALUE")
    return name, value
