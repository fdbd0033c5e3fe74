"""The columns of an asset are those of its newest output that counts, whatever is taken back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.lineage.events import HeldLineageDecided, LineageRecorded, LineageWithdrawn
from arco.lineage.fold import STAGES
from arco.lineage.tables import COLUMNS, USES
from arco.log.envelope import Payload, Recorded, make_event
from arco.state.fold import Chain, fold
from arco.state.table import Key, Table, Versioned
from servo.contract.task import ColumnLineage, ColumnSource, InputRef, Lineage
from tests.kit.depth import examples

CHAIN = Chain(STAGES, [LineageRecorded, HeldLineageDecided, LineageWithdrawn])
START = datetime(2026, 1, 1)
ASSET, SOURCE = "n.down", "n.up"
MOST_OUTPUTS, MOST_HELD = 6, 2
"""So many states are kept at least."""


class Output:
    def __init__(self, position: int, partition: str, column: str, status: str) -> None:
        self.position = position
        self.partition = partition
        self.column = column
        self.status = status

    @property
    def id(self) -> str:
        return f"M{self.position}"


class Partitions:
    """An asset's outputs, and the rows of lineage that are folded of them."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self._position = 0
        self._tables: dict[Table[Any], dict[Key, Versioned[Any]]] = {}

    def get(self, table: Table[Any], key: Key) -> Versioned[Any] | None:
        return self._tables.get(table, {}).get(key)

    def scan(self, table: Table[Any], shard: Key) -> list[tuple[Key, Versioned[Any]]]:
        rows = self._tables.get(table, {}).items()
        return [(key, row) for key, row in rows if key[: len(shard)] == shard]

    def columns(self, table: Table[Any]) -> set[str]:
        rows = self._tables.get(table, {}).values()
        return {row.source_column for _, row in rows if row is not None}

    def newest(self, partition: str | None = None) -> Output | None:
        """Of the outputs that count, of all partitions or of one."""
        good = [each for each in self.outputs if each.status == "good"]
        return next((o for o in reversed(good) if partition in (None, o.partition)), None)

    def _fold(self, payload: Payload) -> None:
        self._position += 1
        event = make_event(
            payload, id=f"{self._position}", time=START, source="t", tenant="t", workspace="w"
        )
        received_at = START + timedelta(minutes=self._position)
        folded = fold(CHAIN, self, [Recorded(self._position, received_at, event, payload)])
        assert folded.failures == []
        for table, changes in folded.changes.items():
            self._tables.setdefault(table, {}).update(changes)

    # -- what happens ---------------------------------------------------------------------

    def put_out(self, partition: str, column: str, held: bool) -> None:
        held = held and sum(each.status == "held" for each in self.outputs) < MOST_HELD
        if len(self.outputs) == MOST_OUTPUTS:
            return
        output = Output(self._position + 1, partition, column, "held" if held else "good")
        self.outputs.append(output)
        self._fold(
            LineageRecorded(
                asset=ASSET,
                asset_id=ASSET,
                materialization_id=output.id,
                partition=partition,
                run_id="R",
                task_id="t",
                held=held,
                lineage=Lineage(
                    read=(InputRef(asset=SOURCE, parameter="x"),),
                    columns=(ColumnLineage(column="out", sources=(ColumnSource(SOURCE, column),)),),
                    method="plan",
                ),
            )
        )

    def take_back(self, at: int) -> None:
        output = self.outputs[at]
        if output.status != "good":
            return
        is_current = output is self.newest(output.partition)
        output.status = "taken back"
        previous = self.newest(output.partition) if is_current else None
        self._fold(
            LineageWithdrawn(
                asset_id=ASSET,
                partition=output.partition,
                materialization_id=output.id,
                position=output.position,
                previous_id="" if previous is None else previous.id,
                previous_position=0 if previous is None else previous.position,
            )
        )

    def release(self, at: int) -> None:
        """Of outputs that checks hold, only what would be the newest is approved."""
        output, newest = self.outputs[at], self.newest()
        is_newest = newest is None or newest.position < output.position
        if output.status == "taken back" or (output.status == "held" and is_newest):
            output.status = "good"
            self._fold(
                HeldLineageDecided(
                    asset_id=ASSET,
                    materialization_id=output.id,
                    approved=True,
                    position=output.position,
                )
            )


numbers = st.integers(0, MOST_OUTPUTS - 1)
steps = st.one_of(
    st.tuples(
        st.just("put out"), st.sampled_from("PQR"), st.sampled_from("abc"), st.sampled_from([0, 1])
    ),
    st.tuples(st.just("take back"), numbers),
    st.tuples(st.just("release"), numbers),
)


@given(st.lists(steps, min_size=4, max_size=18))
@settings(max_examples=examples(100))
def test_columns_are_those_of_the_newest_output_that_counts(taken: list[tuple[Any, ...]]) -> None:
    asset = Partitions()
    for step in taken:
        match step:
            case "put out", partition, column, held:
                asset.put_out(partition, column, bool(held))
            case "take back", at if at < len(asset.outputs):
                asset.take_back(at)
            case "release", at if at < len(asset.outputs):
                asset.release(at)
        newest = asset.newest()
        if newest is not None:
            assert asset.columns(COLUMNS) == asset.columns(USES) == {newest.column}


def test_a_state_that_two_outputs_said_leaves_with_both() -> None:
    asset = Partitions()
    asset.put_out("P", "a", False)
    asset.put_out("Q", "b", False)
    asset.put_out("P", "b", False)
    asset.take_back(1)
    assert asset.columns(COLUMNS) == {"b"}
    asset.take_back(2)
    assert asset.columns(COLUMNS) == {"a"}
    asset.release(1)
    assert asset.columns(COLUMNS) == {"b"}
