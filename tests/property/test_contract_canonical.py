from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.contract import canonical
from servo.errors import Invalid

integers = st.integers(-canonical.MAX_INT, canonical.MAX_INT)
texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | integers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)


def shuffled(value: Any, draw: Any) -> Any:
    """The same value with every dict built in another order."""
    if isinstance(value, dict):
        names = draw(st.permutations(list(value)))
        return {name: shuffled(value[name], draw) for name in names}
    if isinstance(value, list):
        return tuple(shuffled(item, draw) for item in value)
    return value


@given(values)
def test_decode_is_the_inverse_of_encode(value: Any) -> None:
    data = canonical.encode(value)
    again = canonical.decode(data)
    assert again == value
    assert canonical.encode(again) == data


@given(values)
def test_a_plain_json_library_agrees(value: Any) -> None:
    plain = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert canonical.encode(value) == plain.encode()


@given(values, st.data())
def test_the_order_of_building_does_not_matter(value: Any, data: st.DataObject) -> None:
    assert canonical.encode(shuffled(value, data.draw)) == canonical.encode(value)


@given(values, values)
def test_different_values_have_different_fingerprints(a: Any, b: Any) -> None:
    # repr tells True from 1, which == does not; key order is not part of a value.
    same = repr(canonical.decode(canonical.encode(a))) == repr(
        canonical.decode(canonical.encode(b))
    )
    assert (canonical.fingerprint(a) == canonical.fingerprint(b)) == same


@given(values, st.floats(), st.data())
def test_a_float_anywhere_is_refused_and_found(
    value: Any, poison: float, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(["a", "zz"]))
    with pytest.raises(Invalid, match=rf"^\$\.{key}\[1\]: .*float"):
        canonical.encode({key: [value, poison]})


@given(values, st.data())
def test_every_other_spelling_is_refused(value: Any, data: st.DataObject) -> None:
    spelling = data.draw(
        st.sampled_from(
            [
                json.dumps(value),
                json.dumps(value, ensure_ascii=False, indent=1),
                json.dumps(value, ensure_ascii=True, separators=(",", ":")),
                json.dumps(value, ensure_ascii=False, separators=(",", ":")),
                canonical.encode(value).decode() + "\n",
            ]
        )
    ).encode()
    if spelling != canonical.encode(value):
        with pytest.raises(Invalid):
            canonical.decode(spelling)


@given(st.binary() | values.map(canonical.encode), st.data())
def test_mutated_bytes_are_refused_or_canonical(data: bytes, draws: st.DataObject) -> None:
    at = draws.draw(st.integers(0, len(data)))
    data = (
        data[:at] + draws.draw(st.binary(max_size=2)) + data[at + draws.draw(st.integers(0, 2)) :]
    )
    try:
        value = canonical.decode(data)
    except Invalid:
        return
    assert canonical.encode(value) == data


PROGRAM = """
from datetime import date
from servo.contract import canonical, identity
from servo.contract.keys import AssetId
from servo.contract.partition import PartitionKey
names = set("abcdefghij")
key = PartitionKey({n: n for n in names} | {"z": date(2025, 1, 15)})
asset = AssetId("01ARZ3NDEKTSV4RRFFQ69G5FAV")
print(list(names))
print(canonical.fingerprint({n: {m: 1 for m in names} for n in names}))
print(key, identity.task_id(asset, key, "v1"))
print(identity.dispatch_name("run", "task", 1))
"""


def test_ids_do_not_depend_on_the_hash_seed() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split("\n", 1)
        for seed in ("0", "1", "4242")
    ]
    assert len({order for order, _ in outputs}) > 1, "the seeds made no difference: a weak test"
    assert len({ids for _, ids in outputs}) == 1
