"""Spans, lists of inputs and slices of plans say what was put into them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arco.orchestration.input_lists import put_list, whole
from arco.orchestration.input_refs import INLINE, fingerprint_part, fingerprint_part_of, recorded
from arco.orchestration.plan import numbers, spans
from arco.storage.memory import MemoryStore
from servo.contract.task import InputRef, MaterializationRef
from tests.kit.clocks import SimClock

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VERSIONS = st.builds(
    MaterializationRef,
    partition=TEXT,
    materialization_id=TEXT,
    path=TEXT,
    rows=st.integers(0, 2**62),
    bytes=st.integers(0, 2**62),
)


@given(st.sets(st.integers(0, 300)))
def test_spans_hold_the_numbers_in_as_few_pairs_as_can_be(some: set[int]) -> None:
    found = spans(sorted(some))
    assert list(numbers(found)) == sorted(some)
    gaps = sum(number + 1 not in some for number in some)
    assert len(found) == 2 * gaps


@given(st.lists(VERSIONS, min_size=1, max_size=12), st.integers(0, 2))
def test_a_list_gives_back_what_was_listed(some: list[MaterializationRef], extra: int) -> None:
    versions = tuple(some * (extra * INLINE // len(some) + 1))
    store = MemoryStore(SimClock())
    ref = InputRef(asset="a.b", parameter="x", materializations=versions)
    sent = put_list(store, "r1", ref)
    assert put_list(store, "r1", ref) == put_list(store, "r1", ref, overwrite=True) == sent
    assert (sent.listed_in is None) == (len(versions) <= INLINE)
    assert whole(store, sent).materializations == versions
    ids = [each.materialization_id for each in versions]
    assert fingerprint_part_of(sent) == fingerprint_part(ids)
    told = recorded(whole(store, sent))
    assert (told.count or len(told.materializations)) == len(versions)
    assert told.listed_in == sent.listed_in and not any(m.path for m in told.materializations)


@given(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=6), st.data())
def test_other_versions_are_another_fingerprint(ids: list[str], data: st.DataObject) -> None:
    many = [*ids, *(f"m{n}" for n in range(data.draw(st.sampled_from([0, INLINE]))))]
    assert fingerprint_part(many) == fingerprint_part(many[::-1])
    assert fingerprint_part(many) != fingerprint_part([*many, "one more"])
