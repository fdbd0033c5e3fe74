"""What a plan says of dimensions that the request does not name."""

from __future__ import annotations

import pytest

from arco.orchestration.plan_defaults import default_ranges
from servo.contract.manifest import AllUpstream
from servo.errors import Invalid
from tests.kit.planning import (
    CUSTOMERS,
    DAYS,
    REGIONS,
    World,
    asset,
    manifest,
    planned,
    reads,
    time,
)

PROJECT = manifest(
    asset("s.days", DAYS, REGIONS),
    asset("s.hours", time("hour", name="hour")),
    asset("s.sales", CUSTOMERS),
    asset("s.report", CUSTOMERS, reads("s.sales")),
)


def texts(*selection: str, partitions: tuple[str, ...] = (), world: World) -> list[str]:
    spec = planned(PROJECT, *selection, partitions=partitions, world=world)
    return [default.text for default in default_ranges(PROJECT, spec, world.dynamic_keys)]


def test_a_dimension_of_time_stands_for_its_last_complete_period() -> None:
    assert texts("s.hours", world=World()) == [
        "hour: 2025-01-10T23:00, the last complete hour; choose with -p hour=…"
    ]


def test_another_dimension_stands_for_all_its_values() -> None:
    assert texts("s.days", partitions=("date=2025-01-02",), world=World()) == [
        "region: all 2 values; choose with -p region=…"
    ]


def test_a_dimension_that_the_request_names_is_no_default() -> None:
    assert texts("s.days", partitions=("date=all", "region=eu"), world=World()) == []


def test_a_dynamic_dimension_without_keys_names_the_command_that_adds_some() -> None:
    assert texts("s.hours", "s.sales", partitions=("hour=latest",), world=World()) == [
        "customer: no keys yet, so no tasks of s.sales; "
        "add some with: servo partitions add customers KEY"
    ]


@pytest.mark.parametrize(
    ("selection", "partitions", "command"),
    [
        ("s.sales", (), "servo partitions add customers KEY"),
        ("s.sales", ("customer=acme",), "servo partitions add customers acme"),
    ],
)
def test_a_plan_without_keys_is_refused_with_the_command_that_adds_some(
    selection: str, partitions: tuple[str, ...], command: str
) -> None:
    with pytest.raises(Invalid) as error:
        planned(PROJECT, selection, partitions=partitions, world=World())
    assert error.value.hint.endswith(command)


def test_an_input_without_keys_is_refused_with_the_command_that_adds_some() -> None:
    project = manifest(
        asset("s.sales", CUSTOMERS),
        asset("s.total", reads("s.sales", customer=AllUpstream())),
    )
    with pytest.raises(Invalid) as error:
        planned(project, "s.total", "s.sales", world=World())
    assert error.value.hint.endswith("servo partitions add customers KEY")


@pytest.mark.parametrize("between", [":", ".", "-", "/", " to ", " - "])
def test_a_range_with_another_separator_is_shown_with_two_dots(between: str) -> None:
    with pytest.raises(Invalid) as error:
        planned(PROJECT, "s.days", partitions=(f"date=2025-01-01{between}2025-01-02",))
    assert error.value.hint == "write a range with two dots: date=2025-01-01..2025-01-02"
