"""Validation of a project: keys, inputs, cycles."""

from __future__ import annotations

import pytest

from servo import (
    AssetIn,
    In,
    all_upstream,
    asset,
    by_dimension,
    daily,
    identity,
    latest,
    sql_asset,
    static,
    window,
)
from servo.mapping import PartitionMapping
from servo.partition import Partitions
from servo.project import Problem
from servo.rules import names
from tests.kit.validation import DAYS, make, problems, said


def test_a_problem_reads_like_a_compilers() -> None:
    assert str(Problem("a.py", 3, "it is wrong", "repair it", "a.b")) == (
        "a.py:3: it is wrong (repair it)"
    )
    assert str(Problem("a.py", 3, "it is wrong")) == "a.py:3: it is wrong"


def test_a_sound_project_has_no_problems() -> None:
    assert problems([make("a.x"), make("a.y", deps=["x"])]) == []


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("a.Orders", "'Orders' is not a valid asset name"),
        ("A.orders", "'A' is not a valid namespace"),
        (".orders", "the asset 'orders' has no namespace"),
    ],
)
def test_invalid_names_are_refused(key: str, message: str) -> None:
    found = problems([make(key)])
    assert [(problem.message, problem.asset) for problem in found] == [(message, key)]
    assert found[0].file == "kit/validation.py"  # where `make` is
    assert found[0].line > 0
    assert found[0].hint


def test_two_assets_of_one_key_name_each_others_place() -> None:
    def other() -> None: ...

    second = asset(namespace="a", name="x")(other)
    found = problems([make("a.x"), second])
    assert [problem.message for problem in found] == ["a.x is declared twice"]
    assert found[0].hint.startswith("also in kit/validation.py:")


def test_a_rename_must_not_take_the_key_of_another() -> None:
    assert said([make("a.x"), make("a.y", renamed_from="x")]) == [
        "renamed_from='a.x' is the key of an existing asset (rename it, or remove renamed_from)"
    ]
    assert said([make("a.y", renamed_from="x"), make("a.z", renamed_from="a.x")]) == [
        "both a.y and a.z are renamed from a.x (only one of them can be)"
    ]
    assert "renamed_from: 'X' is not a valid asset name" in said([make("a.y", renamed_from="X")])[0]
    assert said([make("a.y", renamed_from="x")]) == []


def test_there_is_a_limit_to_assets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_ASSETS", 2)
    assert said([make("a.x"), make("a.y")]) == []
    assert said([make("a.x"), make("a.y"), make("a.z")]) == [
        "3 assets; a project has at most 2 (split it into several projects)"
    ]


def test_an_unknown_input_suggests_the_nearest_key() -> None:
    assert said([make("sales.orders"), make("a.y", deps=["sales.ordres"])]) == [
        "the input 'sales.ordres' is unknown (did you mean 'sales.orders'?)"
    ]
    assert said([make("warehouse.orders"), make("a.y", deps=["orders"])]) == [
        "the input 'a.orders' is unknown (did you mean 'warehouse.orders'?)"
    ]
    assert said([make("a.y", deps=["a.qqq"])]) == [
        "the input 'a.qqq' is unknown (declare it, or check the spelling)"
    ]


def test_inputs_in_other_namespaces_may_be_another_projects() -> None:
    assert said([make("a.y", deps=["zzz.qqq"])]) == []
    assert "input: 'Bad Key' is not a valid asset name" in said([make("a.y", deps=["Bad Key"])])[0]


def test_cycles_are_named_in_full() -> None:
    assets = [
        make("a.x", deps=["y"]),
        make("a.y", deps=["z"]),
        make("a.z", deps=["x"]),
        make("b.p", deps=["b.q", "a.x"]),
        make("b.q", deps=["b.p"]),
    ]
    hint = "(each asset reads the next one; remove one of these inputs)"
    assert said(assets) == [
        f"cycle: a.x -> a.y -> a.z -> a.x {hint}",
        f"cycle: b.p -> b.q -> b.p {hint}",
    ]


def test_an_asset_cannot_depend_on_itself() -> None:
    found = problems([make("a.x", deps=["a.x", "x"])])
    assert [problem.message for problem in found] == ["a.x depends on itself"]


PAST = window(-7, -1)
REFUSED = (
    'a.x depends on itself (an asset can only read its own past, by time: In("x", window(-7, -1)))'
)


@pytest.mark.parametrize(
    ("mapping", "partitions"),
    [
        (PAST, DAYS),
        (window(-3, -3), DAYS * static("region", ["eu", "us"])),
        (by_dimension(date=PAST, region=all_upstream), DAYS * static("region", ["eu"])),
    ],
)
def test_an_asset_may_read_its_own_past(mapping: PartitionMapping, partitions: Partitions) -> None:
    @asset(namespace="a", partitions=partitions)
    def x(past: AssetIn = AssetIn("x", mapping=mapping)) -> None: ...

    assert said([x]) == []
    query = "SELECT * FROM {{ ref('y') }}"
    y = sql_asset("y", query, namespace="a", partitions=partitions, inputs={"y": mapping})
    assert said([y]) == []


@pytest.mark.parametrize(
    ("mapping", "partitions"),
    [
        (identity, DAYS),
        (window(-7, 0), DAYS),
        (window(1, 2), DAYS),
        (all_upstream, DAYS),
        (latest, DAYS),
        (PAST, static("region", ["eu"])),
        (by_dimension(region=PAST), DAYS * static("region", ["eu"])),
        (by_dimension(date=window(-1, 0)), DAYS),
    ],
)
def test_an_asset_reads_nothing_else_of_itself(
    mapping: PartitionMapping, partitions: Partitions
) -> None:
    dependency = AssetIn("a.x", mapping=mapping)
    assert said([make("a.x", partitions=partitions, deps=[dependency])]) == [REFUSED]
    past = AssetIn("a.x", mapping=PAST)
    assert said([make("a.x", partitions=partitions, deps=[past, dependency])]) == [REFUSED]


def test_a_window_over_the_own_past_is_checked_as_any_other() -> None:
    backwards = AssetIn("a.x", mapping=window(-1, -7))
    assert said([make("a.x", partitions=DAYS, deps=[backwards])]) == [
        "input a.x: window(-1, -7) ends before it starts (write window(-7, -1))"
    ]
    unknown = AssetIn("a.x", mapping=by_dimension(date=PAST, area=latest))
    assert said([make("a.x", partitions=DAYS, deps=[unknown])]) == [
        "input a.x: it has no dimension 'area' (it has date)"
    ]


def test_the_own_past_is_along_one_dimension() -> None:
    both = DAYS * daily("booked", start="2025-01-01")
    deps = [AssetIn("a.x", mapping=by_dimension(**{name: PAST})) for name in ("date", "booked")]
    assert said([make("a.x", partitions=both, deps=deps)]) == [
        "a.x reads its own past along two dimensions (use one of them)"
    ]


def test_a_long_chain_is_no_cycle_and_no_recursion() -> None:
    chain = [make("a.n0"), *(make(f"a.n{n}", deps=[f"n{n - 1}"]) for n in range(1, 3000))]
    assert problems(chain) == []


def test_a_diamond_is_no_cycle() -> None:
    assets = [make("a.x"), make("a.y", deps=["x"]), make("a.z", deps=["x"])]
    assert problems([*assets, make("a.end", deps=["y", "z"])]) == []


def test_a_dependency_without_data_names_no_version() -> None:
    found = problems([make("a.x"), make("a.y", deps=[In("x", version=3)])])
    assert [problem.message for problem in found] == ["deps names a version of a.x"]
