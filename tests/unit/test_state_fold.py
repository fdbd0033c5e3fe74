"""The fold driver: stages, derived facts, failures, and what makes a version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest

from arco.errors import Invalid, Unavailable
from arco.log.envelope import Event, Payload, Recorded, make_event
from arco.state.fold import (
    Chain,
    Change,
    Delete,
    Emit,
    Fact,
    Folded,
    NoRows,
    Put,
    Rows,
    Stage,
    fold,
)
from arco.state.table import History, Key, Row, Table, Versioned

NOW = datetime(2026, 1, 1)


class Said(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "test.said"
    who: str
    word: str


class Echoed(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "test.echoed"
    word: str


class Asked(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "test.asked"
    COMMAND: ClassVar[bool] = True
    who: str


class Person(Row, frozen=True):
    who: str
    word: str


class Word(Row, frozen=True):
    word: str
    times: int
    at: datetime


class Note(Row, frozen=True):
    who: str
    n: int


PEOPLE = Table("test", "people", Person, key=["who"])
NOTES = Table("test", "notes", Note, key=["who", "n"])
WORDS = Table("test", "words", Word, key=["word"], history=History("at", timedelta(hours=1)))


def people(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case Said(who=who, word="forget"):
            yield Delete(PEOPLE, (who,))
            for note in rows.scan(NOTES, who):
                yield Delete(NOTES, (who, note.n))
        case Said(word="boom"):
            yield Put(PEOPLE, Person("half", "done"))
            raise RuntimeError("a defect")
        case Said(who=who, word="huge"):
            yield Put(PEOPLE, Person(who, "huge"))
            yield Put(NOTES, Note(who, 1 << 63))
        case Said(who=who, word=word):
            yield Put(PEOPLE, Person(who, word))
            yield Put(NOTES, Note(who, len(rows.scan(NOTES, who))))
            yield Emit(Echoed(word=word))


def words(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case Echoed(word="erase"):
            yield Delete(WORDS, ("erase",))
        case Echoed(word=word):
            known = rows.get(WORDS, word)
            yield Put(WORDS, Word(word, 1 + (known.times if known else 0), fact.received_at))


def by_who(fact: Fact) -> Key:
    return (fact.payload.who,)  # type: ignore[attr-defined]


def by_word(fact: Fact) -> Key:
    return (fact.payload.word,)  # type: ignore[attr-defined]


CHAIN = Chain(
    [
        Stage("people", (PEOPLE, NOTES), {Said: by_who, Asked: by_who}, people),
        Stage("words", (WORDS,), {Echoed: by_word, Asked: by_who}, words),
    ],
    [Said, Asked],
)


def recorded(position: int, payload: Payload | None, at: datetime = NOW) -> Recorded:
    event: Event = make_event(
        payload or Said(who="-", word="-"),
        id=f"E{position}",
        time=NOW,
        source="t",
        tenant="a",
        workspace="b",
    )
    return Recorded(position, at, event, payload)


def folded(*payloads: Payload | None) -> Folded:
    events = [recorded(n, payload) for n, payload in enumerate(payloads, 1)]
    return fold(CHAIN, NoRows(), events)


def rows_of(result: Folded, table: Table[Any]) -> dict[Key, Any]:
    return dict(result.changes.get(table, {}))


def test_row_has_the_position_of_the_event_that_last_changed_it() -> None:
    result = folded(
        Said(who="ana", word="hi"), Said(who="bo", word="yo"), Said(who="ana", word="x")
    )
    assert rows_of(result, PEOPLE) == {
        ("ana",): (3, Person("ana", "x")),
        ("bo",): (2, Person("bo", "yo")),
    }


def test_put_that_changes_nothing_keeps_the_version() -> None:
    result = folded(Said(who="ana", word="hi"), Said(who="ana", word="hi"))
    assert rows_of(result, PEOPLE) == {("ana",): (1, Person("ana", "hi"))}


def test_derived_fact_goes_to_the_next_stage_with_its_cause_s_position() -> None:
    result = folded(Said(who="ana", word="hi"), Said(who="bo", word="hi"))
    assert rows_of(result, WORDS) == {("hi",): (2, Word("hi", 2, NOW))}


def test_delete_leaves_a_tombstone_and_scan_sees_what_the_batch_did() -> None:
    result = folded(
        Said(who="ana", word="hi"), Said(who="ana", word="yo"), Said(who="ana", word="forget")
    )
    assert rows_of(result, PEOPLE) == {("ana",): (3, None)}
    assert rows_of(result, NOTES) == {("ana", 0): (3, None), ("ana", 1): (3, None)}


def test_delete_of_what_is_not_there_changes_nothing() -> None:
    assert rows_of(folded(Said(who="ana", word="forget")), PEOPLE) == {}


def test_defect_of_one_fold_skips_that_fact_whole_and_no_other() -> None:
    result = folded(
        Said(who="ana", word="hi"), Said(who="bo", word="boom"), Said(who="cy", word="yo")
    )
    assert set(rows_of(result, PEOPLE)) == {("ana",), ("cy",)}
    (failure,) = result.failures
    assert (failure.stage, failure.position, failure.type) == ("people", 2, "test.said")
    assert "a defect" in failure.error


def test_fact_that_makes_a_row_nobody_can_write_is_skipped_whole() -> None:
    result = folded(Said(who="ana", word="huge"), Said(who="bo", word="hi"))
    assert set(rows_of(result, PEOPLE)) == {("bo",)}
    assert [f.position for f in result.failures] == [1]


def test_delete_from_a_table_with_history_is_a_defect_that_stops_nobody() -> None:
    result = folded(Said(who="ana", word="erase"), Said(who="bo", word="hi"))
    assert set(rows_of(result, WORDS)) == {("hi",)}
    assert [(f.stage, f.position) for f in result.failures] == [("words", 1)]


class Away(NoRows):
    """A source whose store does not answer for some tables."""

    def __init__(self, *away: Table[Any]) -> None:
        self._away = away

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        if table in self._away:
            raise Unavailable("the store is away")
        return None

    def scan(self, table: Table[Any], shard: Key) -> Iterable[tuple[Key, Versioned[Any]]]:
        if table in self._away:
            raise Unavailable("the store is away")
        return ()


@pytest.mark.parametrize(
    "table", [PEOPLE, NOTES, WORDS], ids=["put without a look", "scanned", "looked at"]
)
def test_rows_that_cannot_be_read_are_no_reason_to_skip_an_event(table: Table[Any]) -> None:
    with pytest.raises(Unavailable):
        fold(CHAIN, Away(table), [recorded(1, Said(who="ana", word="hi"))])


def test_unknown_payload_is_passed_over() -> None:
    assert folded(None).changes == {}


def test_row_that_has_left_is_not_seen_by_later_facts() -> None:
    events = [
        recorded(1, Said(who="ana", word="hi")),
        recorded(2, Said(who="bo", word="hi"), NOW + timedelta(hours=1)),
        recorded(3, Said(who="cy", word="hi"), NOW + timedelta(hours=3)),
    ]
    result = fold(CHAIN, NoRows(), events)
    assert rows_of(result, WORDS) == {("hi",): (3, Word("hi", 1, NOW + timedelta(hours=3)))}


def test_commands_enter_by_the_first_stage_alone_and_facts_by_all() -> None:
    assert [i for i, _ in CHAIN.entries(recorded(1, Asked(who="ana")))] == [0]
    both = Chain(
        [
            Stage("one", (PEOPLE,), {Said: by_who}, people),
            Stage("two", (WORDS,), {Said: by_who}, words),
        ],
        [Said],
    )
    assert [i for i, _ in both.entries(recorded(1, Said(who="a", word="b")))] == [0, 1]


def test_table_of_two_stages_is_refused() -> None:
    stage = Stage("one", (PEOPLE,), {Said: by_who}, people)
    with pytest.raises(Invalid, match="two stages"):
        Chain([stage, stage._replace(name="two")], [Said])
