from __future__ import annotations

from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from servo import (
    AssetIn,
    Freshness,
    Resources,
    Retry,
    accepted_values,
    all_upstream,
    asset,
    column,
    daily,
    hourly,
    latest,
    not_null,
    row_count,
    schedule,
    sql_asset,
    static,
)
from servo.asset import AnyAsset, AssetSettings
from servo.contract.manifest import (
    AssetsByKey,
    ColumnDef,
    decode_manifest,
    decode_outline,
    encode_manifest,
)
from servo.discover import build_manifest
from servo.duration import seconds
from servo.errors import Invalid
from servo.project import Project
from servo.validate import validate

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1)).map(lambda day: daily("date", start=day))
REGIONS = st.lists(NAMES, min_size=1, unique=True).map(lambda names: static("region", names))
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "description": TEXT,
        "partitions": DAYS | REGIONS | st.builds(lambda a, b: a * b, DAYS, REGIONS),
        "owners": st.lists(TEXT.filter(str.strip), max_size=3),
        "tags": st.dictionaries(TEXT.filter(str.strip), TEXT, max_size=3),
        "checks": st.lists(
            st.sampled_from([row_count(min=1), not_null("a", "b")]), unique_by=lambda c: c.name
        ),
        "timeout": st.integers(1, 10**6),
        "resources": st.builds(Resources, cpu=st.integers(1, 64), priority=st.integers(-9, 9)),
        "config": st.dictionaries(TEXT, TEXT | st.integers(-(2**60), 2**60) | st.booleans()),
    },
)


def _function() -> None: ...


def make(name: str, settings: dict[str, Any], upstream: list[str]) -> AnyAsset:
    deps = [AssetIn(each, mapping=mapping) for each in upstream for mapping in (latest,)]
    return asset(**{**settings, "namespace": "a", "name": name, "deps": deps})(_function)


@st.composite
def acyclic(draw: st.DrawFn) -> list[AnyAsset]:
    """Assets that read some of those before them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    return [
        make(
            name,
            draw(SETTINGS),
            draw(st.lists(st.sampled_from(names[:at] or names[:1]), max_size=3)) if at else [],
        )
        for at, name in enumerate(names)
    ]


@given(st.data())
def test_the_manifest_is_the_same_under_any_order_of_definitions(data: st.DataObject) -> None:
    assets = data.draw(acyclic())
    nightly = schedule("nightly", cron="0 2 * * *", selection=[assets[0]])
    hourly = schedule("hourly", cron="0 * * * *", selection=[assets[-1]])
    first = Project(Path("/"), assets=assets, schedules=[nightly, hourly])
    mixed = data.draw(st.permutations(assets))
    second = Project(Path("/"), assets=mixed, schedules=[hourly, nightly])
    assert validate(first) == validate(second) == []
    assert encode_manifest(build_manifest(first)) == encode_manifest(build_manifest(second))


@given(acyclic())
def test_a_manifest_survives_its_bytes(assets: list[AnyAsset]) -> None:
    manifest = build_manifest(Project(Path("/"), assets=assets), artifact="ab")
    data = encode_manifest(manifest)
    assert decode_manifest(data) == manifest
    assert encode_manifest(decode_manifest(data)) == data


@given(acyclic())
def test_parts_of_a_manifest_are_those_of_the_whole(assets: list[AnyAsset]) -> None:
    manifest = build_manifest(Project(Path("/"), assets=assets), artifact="ab", name="shop")
    columns = (ColumnDef(name="id", type="bigint"), ColumnDef(name="ä"))
    declared = [msgspec.structs.replace(asset, columns=columns) for asset in manifest.assets]
    manifest = msgspec.structs.replace(manifest, assets=tuple(declared))
    data = encode_manifest(manifest)
    without = [msgspec.structs.replace(asset, columns=(), source="") for asset in manifest.assets]
    assert decode_outline(data) == msgspec.structs.replace(manifest, assets=tuple(without))
    assert dict(AssetsByKey(data)) == {asset.key: asset for asset in manifest.assets}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15))
def test_a_cycle_is_reported_exactly_if_the_assets_cannot_be_ordered(
    edges: list[tuple[int, int]],
) -> None:
    upstream: dict[int, set[int]] = {node: set() for node in range(7)}
    for target, source in edges:
        if target != source:
            upstream[target].add(source)
    assets = [
        asset(
            namespace="a",
            name=f"n{node}",
            deps=[AssetIn(f"n{source}", mapping=all_upstream) for source in sorted(upstream[node])],
        )(_function)
        for node in upstream
    ]
    found = [
        p for p in validate(Project(Path("/"), assets=assets)) if p.message.startswith("cycle")
    ]
    assert bool(found) == (not _can_be_ordered(upstream))
    for problem in found:
        walk = [int(step[3:]) for step in problem.message.removeprefix("cycle: ").split(" -> ")]
        assert walk[0] == walk[-1]
        pairs = pairwise(walk)
        assert all(source in upstream[target] for target, source in pairs)


def _can_be_ordered(upstream: dict[int, set[int]]) -> bool:
    left = dict(upstream)
    while ready := [node for node, sources in left.items() if not sources & left.keys()]:
        for node in ready:
            del left[node]
    return not left


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(1, 99))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, s: int) -> None:
    text = f"{days}d{hours}h{minutes}m{s}s"
    assert seconds(text, "timeout") == ((days * 24 + hours) * 60 + minutes) * 60 + s


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=5,
)
BUILDERS: list[Callable[..., Any]] = [
    lambda junk: asset(**junk)(_function),
    lambda junk: asset(partitions=static("r", junk), namespace="a")(_function),
    lambda junk: asset(partitions=static(junk, ["a"]), namespace="a")(_function),
    lambda junk: asset(partitions=daily("d", start=junk), namespace="a")(_function),
    lambda junk: asset(partitions=hourly("d", start="2025-01-01", end=junk))(_function),
    lambda junk: asset(partitions=daily("d", start="2025-01-01", timezone=junk))(_function),
    lambda junk: asset(checks=[accepted_values("a", junk)], namespace="a")(_function),
    lambda junk: asset(checks=[not_null("a", name=junk, input=junk)], namespace="a")(_function),
    lambda junk: asset(deps=[AssetIn(junk)], namespace="a")(_function),
    lambda junk: asset(retry=Retry(delay=junk, max_attempts=junk), namespace="a")(_function),
    lambda junk: asset(freshness=Freshness(max_age=junk), namespace="a")(_function),
    lambda junk: asset(columns=[column(junk, junk, lineage=junk)], namespace="a")(_function),
    lambda junk: sql_asset("q", junk, namespace="a"),
]


@given(st.sampled_from(BUILDERS), JUNK)
def test_whatever_is_declared_is_refused_or_reported_and_never_breaks(
    build: Callable[..., Any], junk: object
) -> None:
    try:
        made = build(junk)
    except (Invalid, TypeError):  # TypeError: a call without such a keyword
        return
    assert isinstance(validate(Project(Path("/"), assets=[made])), list)


@given(st.sampled_from(sorted(AssetSettings.__annotations__)), JUNK)
def test_any_value_of_any_setting_is_refused_or_reported(name: str, junk: object) -> None:
    settings: dict[str, Any] = {"namespace": "a", "name": "x", name: junk}
    try:
        made = asset(**settings)(_function)
    except Invalid:
        return
    project = Project(Path("/"), assets=[made])
    if not validate(project):
        data = encode_manifest(build_manifest(project))
        assert encode_manifest(decode_manifest(data)) == data
