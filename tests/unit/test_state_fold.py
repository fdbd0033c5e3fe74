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
    On,
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


def people(rows: Rows, fact: Fact, e: Said) -> Iterator[Change]:
    match e.word:
        case "forget":
            yield Delete(PEOPLE, (e.who,))
            for note in rows.scan(NOTES, e.who):
                yield Delete(NOTES, (e.who, note.n))
        case "boom":
            yield Put(PEOPLE, Person("half", "done"))
            raise RuntimeError("a defect")
        case "huge":
            yield Put(PEOPLE, Person(e.who, "huge"))
            yield Put(NOTES, Note(e.who, 1 << 63))
        case word:
            yield Put(PEOPLE, Person(e.who, word))
            yield Put(NOTES, Note(e.who, len(rows.scan(NOTES, e.who))))
            yield Emit(Echoed(word=word))


def words(rows: Rows, fact: Fact, e: Echoed) -> Iterator[Change]:
    if e.word == "erase":
        yield Delete(WORDS, ("erase",))
    else:
        known = rows.get(WORDS, e.word)
        yield Put(WORDS, Word(e.word, 1 + (known.times if known else 0), fact.received_at))


def nothing(rows: Rows, fact: Fact, e: Payload) -> Iterator[Change]:
    yield from ()


def by_who(fact: Fact, e: Said | Asked) -> str:
    return e.who


def by_word(fact: Fact, e: Echoed) -> str:
    return e.word


CHAIN = Chain(
    [
        Stage("people", (PEOPLE, NOTES), [On(Said, by_who, people), On(Asked, by_who, nothing)]),
        Stage("words", (WORDS,), [On(Echoed, by_word, words), On(Asked, by_who, nothing)]),
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


def test_scan_of_a_table_whose_shard_key_is_its_key_sees_what_the_batch_did() -> None:
    rows = Rows(NoRows())
    assert rows.scan(PEOPLE, "ana") == []
    rows.apply(Put(PEOPLE, Person("ana", "hi")), 1)
    rows.apply(Put(PEOPLE, Person("bo", "ho")), 1)
    assert rows.scan(PEOPLE, "ana") == [Person("ana", "hi")]
    rows.apply(Delete(PEOPLE, ("ana",)), 2)
    assert rows.scan(PEOPLE, "ana") == []


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
            Stage("one", (PEOPLE,), [On(Said, by_who, people)]),
            Stage("two", (WORDS,), [On(Said, by_who, nothing)]),
        ],
        [Said],
    )
    assert [i for i, _ in both.entries(recorded(1, Said(who="a", word="b")))] == [0, 1]


def test_table_of_two_stages_is_refused() -> None:
    stages = [Stage(name, (PEOPLE,), [On(Said, by_who, people)]) for name in ("one", "two")]
    with pytest.raises(Invalid, match="two stages"):
        Chain(stages, [Said])


def test_payload_that_a_stage_has_twice_is_refused() -> None:
    with pytest.raises(Invalid, match=r"two folds of test\.said"):
        Stage("one", (PEOPLE,), [On(Said, by_who, people), On(Said, by_who, nothing)])


def test_facts_of_a_bucket_after_those_of_another_give_the_same_rows_and_failures() -> None:
    texts = ["hello", "forget", "boom", "huge", "erase", "bye"]
    payloads = [Said(who=f"p{n * n % 37}", word=texts[n * 7 % 11 % 6]) for n in range(2_000)]
    events = [recorded(n, payload) for n, payload in enumerate(payloads, 1)]
    expected = fold(CHAIN, NoRows(), events)
    answers = iter([False, True])  # from the second portion of the first stage on
    for is_tight in (lambda: True, lambda: next(answers, True)):
        folded = fold(CHAIN, NoRows(), events, is_tight=is_tight)
        assert folded.changes == expected.changes
        assert folded.failures == expected.failures


def test_derived_facts_have_the_order_of_the_facts_that_they_come_from() -> None:
    order: list[str] = []

    def listen(rows: Rows, fact: Fact, e: Echoed) -> Iterator[Change]:
        order.append(e.word)
        yield from ()

    def echo(rows: Rows, fact: Fact, e: Said) -> Iterator[Change]:
        yield Emit(Echoed(word=f"{e.who}1"))
        yield Emit(Echoed(word=f"{e.who}2"))

    stages = [
        Stage("echo", (PEOPLE,), [On(Said, by_who, echo)]),
        Stage("listen", (WORDS,), [On(Echoed, lambda fact, e: "one key", listen)]),
    ]
    events = [recorded(n // 2, Said(who=f"p{n}", word="-")) for n in range(40)]
    fold(Chain(stages, [Said]), NoRows(), events, is_tight=lambda: True)
    assert order == [f"p{n}{m}" for n in range(40) for m in (1, 2)]
