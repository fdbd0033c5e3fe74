"""Mappings in manifests that other versions wrote, or will read."""

from __future__ import annotations

import pytest

from servo.contract.manifest import (
    AllUpstream,
    Asset,
    Code,
    Input,
    Latest,
    Manifest,
    Mapping,
    TimeWindow,
    Window,
    decode_manifest,
    encode_manifest,
)


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        (Window(-6, 0), b'"mapping":{"end":0,"start":-6,"type":"window"}'),
        (AllUpstream(), b'"mapping":{"type":"all"}'),
        (Latest(), b'"mapping":{"type":"latest"}'),
        (TimeWindow(), b'"mapping":{"type":"time_window"}'),
        (TimeWindow("month"), b'"mapping":{"dimension":"month","type":"time_window"}'),
    ],
)
def test_the_wire_form_of_a_mapping_stays(mapping: Mapping, text: bytes) -> None:
    inputs = (Input(asset="a.y", parameter="y", mapping=mapping),)
    asset = Asset(key="a.x", code=Code(module="a", name="x"), inputs=inputs)
    data = encode_manifest(Manifest(assets=(asset,)))
    assert text in data
    (decoded,) = decode_manifest(data).assets
    assert decoded.inputs == inputs


@pytest.mark.parametrize(
    ("dimension", "own", "expected"),
    [
        ("", ["date", "month"], "date"),
        ("", ["month"], "month"),
        ("", ["month", "week"], ""),
        ("", [], ""),
        ("week", ["date", "month", "week"], "week"),
    ],
)
def test_a_time_window_follows_the_named_the_same_or_the_only_dimension(
    dimension: str, own: list[str], expected: str
) -> None:
    assert TimeWindow(dimension).followed("date", ["date"], own) == expected


def test_of_two_time_dimensions_a_time_window_follows_none_of_another_name() -> None:
    upstream = ["booked", "date"]
    assert TimeWindow().followed("date", upstream, ["date"]) == "date"
    assert TimeWindow().followed("booked", upstream, ["date"]) == ""
