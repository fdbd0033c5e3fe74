"""Column edges have names, and the time of the output that said them: renames in every order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from arco.app import Workspace
from arco.execution.events import OutputAccepted
from arco.execution.tables import PARTITIONS, QUARANTINE
from arco.lineage.events import HeldLineageDecided, LineageRecorded
from arco.log.envelope import Payload
from arco.state.snapshot import Generation
from servo.contract.manifest import Input
from servo.contract.task import (
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
)
from tests.kit import planning
from tests.kit.clocks import SimClock
from tests.kit.deploying import put
from tests.kit.derived import derived_workspace

UP, DOWN = "raw.up", "mart.down"


class Story:
    """An asset and its reader: outputs, renames, and what lineage says then."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.w: Workspace = derived_workspace(clock=self.clock)
        put(
            self.w,
            planning.asset(UP),
            planning.asset("raw.other"),
            planning.asset(
                DOWN,
                Input(asset=UP, parameter="up"),
                Input(asset="raw.other", parameter="other"),
            ),
        )
        self._numbers = count()

    def _fact(self, payload: Payload) -> None:
        self.clock.advance(timedelta(minutes=1))
        self.w.ledger.append([self.w.ledger.event(payload)])
        self.w.committer.commit()

    def _id(self, key: str) -> str:
        return self.w.read.lineage().names.id(key)

    def output(self, **columns: str) -> str:
        """The upper asset puts out columns with these types: another type is another column."""
        infos = tuple(ColumnInfo(name=name, type=type) for name, type in columns.items())
        return self._accepted(UP, infos)

    def _accepted(
        self, asset: str, columns: tuple[ColumnInfo, ...] = (), *, version: str = ""
    ) -> str:
        id = version or f"{next(self._numbers):026}"
        text = " ".join(f"{each.name}:{each.type}" for each in columns)
        made = Materialization(
            materialization_id=id,
            asset=asset,
            asset_id=self._id(asset),
            partition="",
            run_id="R",
            task_id="t",
            attempt_id=f"A{id}",
            path=f"data/{id}",
            files=("part-0.parquet",),
            rows=1,
            bytes=1,
            schema=columns,
            schema_hash=hashlib.md5(text.encode()).hexdigest(),
            fingerprint=id,
        )
        self._fact(OutputAccepted(materialization=made))
        return id

    def read(
        self, column: str, *, unread: bool = False, version: str = "", held: bool = False
    ) -> str:
        """The reader puts out `out`, made of a column; or it does not read the asset this time.

        It reads the newest version, or a given one."""
        asset = "raw.other" if unread else UP
        sources = (ColumnSource(asset, column),)
        snapshot = self.w.read.snapshot()
        current = snapshot.get(PARTITIONS, self._id(asset), "")
        id = version or ("" if current is None else current.materialization_id)
        refs = (MaterializationRef(partition="", materialization_id=id),) if id else ()
        lineage = Lineage(
            read=(
                InputRef(
                    asset=asset,
                    asset_id=self._id(asset),
                    parameter="other" if unread else "up",
                    materializations=refs,
                ),
            ),
            columns=(ColumnLineage(column="out", sources=sources),),
            method="plan",
            confidence="high",
        )
        made = f"{next(self._numbers):026}"
        self._fact(
            LineageRecorded(
                asset=DOWN,
                asset_id=self._id(DOWN),
                materialization_id=made,
                run_id="R",
                task_id="t",
                held=held,
                lineage=lineage,
            )
        )
        return made if held else self._accepted(DOWN, version=made)

    def approve(self, version: str) -> None:
        id = self._id(DOWN)
        self._fact(HeldLineageDecided(asset_id=id, materialization_id=version, approved=True))

    def quarantine(self, version: str) -> None:
        self.clock.advance(timedelta(minutes=1))
        self.w.commands.execution.quarantine(DOWN, self._id(DOWN), version, "wrong")

    def release(self, version: str) -> None:
        held = self.w.read.snapshot().get(QUARANTINE, self._id(DOWN), version)
        assert held is not None
        self.w.commands.execution.decide(held, approved=True)

    def rename(self, old: str, new: str) -> None:
        self.clock.advance(timedelta(minutes=1))
        self.w.commands.catalog.rename_column(UP, old, new)

    def says(self, at: Generation | None = None) -> set[str]:
        """The columns of the upper asset that `out` comes from; the same from both ends."""
        reader = self.w.read.lineage(at)
        above = {
            link.source.column for link in reader.upstream(DOWN, "out") if link.source.asset == UP
        }
        below = {
            name
            for name in ("a", "b", "c", "tmp")
            if any(str(link.target) == f"{DOWN}.out" for link in reader.downstream(UP, name))
        }
        assert above == below
        rows = {row.source_column for row in reader.columns(DOWN) if row.source == UP}
        assert above == rows
        return above


def renamed(s: Story) -> str:
    s.output(a="bigint")
    s.read("a")
    s.rename("a", "b")
    s.output(b="bigint")
    return "b"


def read_before_the_rename_is_in_the_data(s: Story) -> str:
    s.output(a="bigint")
    s.rename("a", "b")
    s.read("a")
    s.output(b="bigint")
    return "b"


def another_column_takes_the_name(s: Story) -> str:
    s.output(a="bigint")
    s.read("a")
    s.rename("a", "b")
    s.output(b="bigint")
    s.output(b="bigint", a="string")
    return "b"


def another_takes_it_while_the_rename_waits(s: Story) -> str:
    s.output(a="bigint")
    s.rename("a", "b")
    s.read("a")
    s.output(b="bigint")
    s.output(b="bigint", a="string")
    return "b"


def the_reader_reads_the_new_column_of_the_old_name(s: Story) -> str:
    s.output(a="bigint")
    s.read("a")
    s.rename("a", "b")
    s.output(b="bigint")
    s.output(b="bigint", a="string")
    s.read("a")  # says what it said, and means another column
    return "a"


def two_swap_their_names(s: Story) -> str:
    s.output(a="bigint", b="string")
    s.read("a")
    s.rename("a", "tmp")
    s.output(tmp="bigint", b="string")
    s.rename("b", "a")
    s.output(tmp="bigint", a="string")
    s.rename("tmp", "b")
    s.output(b="bigint", a="string")
    return "b"


def two_swap_and_the_reader_follows(s: Story) -> str:
    two_swap_their_names(s)
    s.read("a")
    return "a"


def an_input_that_is_not_read_any_more(s: Story) -> str:
    s.output(a="bigint")
    s.read("a")
    s.rename("a", "b")
    s.output(b="bigint")
    s.output(b="bigint", a="string")
    s.read("x", unread=True)
    s.read("y", unread=True)
    return "b"


def a_column_that_comes_back(s: Story) -> str:
    s.output(a="bigint", c="double")
    s.read("a")
    s.output(c="double")
    s.output(a="bigint", c="double")
    return "a"


def an_old_version_is_read(s: Story) -> str:
    old = s.output(a="bigint")
    s.rename("a", "b")
    s.output(b="bigint")
    s.output(b="bigint", a="string")
    s.read("a", version=old)
    return "b"


def an_output_is_approved_late(s: Story) -> str:
    s.output(a="bigint")
    held = s.read("a", held=True)
    s.rename("a", "b")
    s.output(b="bigint")
    s.output(b="bigint", a="string")
    s.approve(held)
    return "b"


STORIES: tuple[Callable[[Story], str], ...] = (
    renamed,
    read_before_the_rename_is_in_the_data,
    another_column_takes_the_name,
    another_takes_it_while_the_rename_waits,
    the_reader_reads_the_new_column_of_the_old_name,
    two_swap_their_names,
    two_swap_and_the_reader_follows,
    an_input_that_is_not_read_any_more,
    a_column_that_comes_back,
    an_old_version_is_read,
    an_output_is_approved_late,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_an_edge_follows_its_column(story: Callable[[Story], str]) -> None:
    s = Story()
    expected = {story(s)}
    assert s.says() == expected
    generation = Generation(s.w.read.snapshot().generation)
    s.output(z="date")
    assert s.says(generation) == expected
    assert s.w.upkeep.rebuild(publish=False).same


def test_columns_are_those_of_the_version_that_is_current() -> None:
    s = Story()
    s.output(a="bigint", b="string", c="double")
    s.read("a")
    second = s.read("b")
    assert s.says() == {"b"}
    s.quarantine(second)
    assert s.says() == {"a"}
    generation = Generation(s.w.read.snapshot().generation)
    s.release(second)
    assert s.says() == {"b"}
    s.quarantine(second)
    third = s.read("c")
    assert s.says() == {"c"}
    s.quarantine(third)
    assert s.says() == {"a"}, "the one between them is held, too"
    s.release(second)
    assert s.says() == {"b"}
    assert s.says(generation) == {"a"}
    assert s.w.upkeep.rebuild(publish=False).same


def test_a_version_that_is_not_the_newest_changes_no_column() -> None:
    s = Story()
    s.output(a="bigint", b="string", c="double")
    first = s.read("a")
    s.read("b")
    s.quarantine(first)
    assert s.says() == {"b"}
    s.release(first)
    assert s.says() == {"b"}
    assert s.w.upkeep.rebuild(publish=False).same


def test_a_superseded_version_that_is_held_does_not_come_back() -> None:
    s = Story()
    s.output(a="bigint", b="string", c="double")
    s.read("a")
    second = s.read("b")
    third = s.read("c")
    s.quarantine(second)
    s.quarantine(third)
    assert s.says() == {"a"}
    s.release(second)
    assert s.says() == {"b"}
    assert s.w.upkeep.rebuild(publish=False).same


def test_columns_stay_where_no_version_is_left() -> None:
    s = Story()
    s.output(a="bigint")
    only = s.read("a")
    s.quarantine(only)
    assert s.says() == {"a"}
    s.release(only)
    assert s.says() == {"a"}
