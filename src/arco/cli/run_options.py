"""How a run is asked for: shared by `servo plan` and `servo run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from arco.errors import Invalid

if TYPE_CHECKING:
    from arco.orchestration.plan import PlanRequest

Selection = Annotated[
    list[str],
    typer.Argument(
        metavar="SELECTION...",
        help="Assets: sales.orders, +sales.orders (with what it needs), sales.orders+ (with "
        "what needs it), sales.*, tag:tier=gold, group:marts, or '*'.",
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="RANGE",
        help="date=2025-01-01..2025-01-31, region=eu, date=latest; repeat it for others.",
    ),
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="SELECTION", help="Leave these out; repeatable.")
]
Force = Annotated[bool, typer.Option("--force", help="Run also what is up to date.")]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="NAME=VALUE", help="Configuration for all tasks; repeatable."),
]
MaxTasks = Annotated[int, typer.Option(min=1, metavar="N", help="Refuse a larger plan.")]


def request_of(
    selection: list[str],
    exclude: list[str] | None,
    partition: list[str] | None,
    force: bool,
    config: list[str] | None,
    max_tasks: int,
) -> PlanRequest:
    from arco.orchestration.plan import PlanRequest

    return PlanRequest(
        selection=tuple(selection),
        exclude=tuple(exclude or ()),
        partitions=tuple(partition or ()),
        force=force,
        config=dict(_pair(text) for text in config or ()),
        max_tasks=max_tasks,
    )


def _pair(text: str) -> tuple[str, str | int | bool | None]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Invalid(f"{text!r} is not a configuration value", hint="write NAME=VALUE")
    if value in ("true", "false"):
        return name, value == "true"
    if value.removeprefix("-").isdecimal():
        return name, int(value)
    return name, value
