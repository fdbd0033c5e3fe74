"""Random histories of a catalog, from plain numbers.

A history is drawn as a list of small numbers, by hypothesis or by a seeded
`random.Random`, and read as commands and facts. Names and references come from
small pools, so that races, refusals, repeats and dangling references are common.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from hypothesis import strategies as st

from arco.catalog.events import (
    AssetCreated,
    AssetDropped,
    AssetObserved,
    AssetRenamed,
    AssetUpdated,
    Column,
    ColumnAdded,
    ColumnDropped,
    ColumnUpdated,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceUpdated,
)
from arco.log.envelope import Payload

NAMESPACES = ("sales", "ops")
NAMES = ("orders", "items", "users")
COLUMNS = ("id", "email", "total")


class Draw(NamedTuple):
    """The numbers that one step is made of."""

    kind: int
    namespace: int
    name: int
    asset: int
    value: int


class Step(NamedTuple):
    payload: Payload
    event_id: str
    idempotency_key: str = ""
    actor: str = ""


draws = st.builds(
    Draw,
    st.integers(0, 19),
    st.integers(0, len(NAMESPACES) - 1),
    st.integers(0, len(NAMES) - 1),
    st.integers(0, 9),
    st.integers(0, 9),
)


def random_draw(rng: random.Random) -> Draw:
    return Draw(
        rng.randrange(20),
        rng.randrange(len(NAMESPACES)),
        rng.randrange(len(NAMES)),
        rng.randrange(10),
        rng.randrange(10),
    )


def column_id(event_id: str, ordinal: int) -> str:
    """The rule for column ids, written down a second time."""
    return "col_" + hashlib.sha256(f"{event_id}:{ordinal}".encode()).hexdigest()[:16]


class History:
    """Turns draws into steps; remembers the assets that were asked for, and their names."""

    def __init__(self, ids: Callable[[], str]) -> None:
        self._ids = ids
        self._created: list[tuple[str, str, str]] = []
        """(id, namespace, name) of every asset that somebody asked for."""
        self._columns: list[tuple[str, str]] = []

    def step(self, draw: Draw) -> Step:
        event_id = self._ids()
        payload = self._payload(draw, event_id)
        # Now and then a key is shared, with the same request or with another one.
        key = f"key-{draw.asset % 3}" if draw.value == 9 else ""
        return Step(payload, event_id, key, f"actor-{draw.value % 2}")

    def _payload(self, draw: Draw, event_id: str) -> Payload:
        namespace, name = NAMESPACES[draw.namespace], NAMES[draw.name]
        asset_id, its_namespace, its_name = self._asset(draw)
        expected = draw.asset + 1 if draw.value == 8 else None
        match draw.kind:
            case 0 | 1 | 2:
                return NamespaceCreated(namespace=namespace, tags={"n": str(draw.value)})
            case 3:
                return NamespaceUpdated(
                    namespace=namespace, description=f"d{draw.value}", expected_version=expected
                )
            case 4:
                return NamespaceDropped(namespace=namespace)
            case 5 | 6 | 7 | 8:
                return self._create(draw, event_id)
            case 9 | 10:
                return AssetUpdated(
                    asset_id=asset_id,
                    description=f"d{draw.value % 3}",
                    owners=("a", "b")[: draw.value % 3] or None,
                    tags={"t": str(draw.value)} if draw.value % 2 else None,
                    expected_version=expected,
                    asset_key=f"{its_namespace}.{its_name}" if draw.name else msgspec.UNSET,
                )
            case 11 | 12:
                self._created.append((asset_id, its_namespace, name))
                return AssetRenamed(
                    asset_id=asset_id, namespace=its_namespace, name=its_name, new_name=name
                )
            case 13:
                return AssetDropped(asset_id=asset_id, namespace=its_namespace, name=its_name)
            case 14 | 15:
                self._columns.extend((asset_id, column_id(event_id, i)) for i in range(3))
                return ColumnAdded(
                    asset_id=asset_id,
                    column=self._column(draw),
                    asset_key=f"{its_namespace}.{its_name}" if draw.value % 2 else msgspec.UNSET,
                )
            case 16:
                owner, column = self._of_column(draw)
                return ColumnUpdated(
                    asset_id=owner,
                    column_id=column,
                    name=COLUMNS[draw.name] if draw.value % 2 else None,
                    type="text",
                    nullable=draw.value % 3 == 0,
                    column_name=COLUMNS[draw.name] if draw.value > 5 else msgspec.UNSET,
                    expected_version=expected,
                )
            case 17:
                owner, column = self._of_column(draw)
                named = f"{namespace}.{name}" if draw.value > 5 else msgspec.UNSET
                return ColumnDropped(
                    asset_id=owner, column_id=column, asset_key=named, expected_version=expected
                )
            case _:
                return AssetObserved(
                    asset_id=asset_id, row_count=draw.value, size_bytes=draw.asset, files=1
                )

    def _create(self, draw: Draw, event_id: str) -> Payload:
        columns = [Column(name=c, type="int", pii="email") for c in COLUMNS[: draw.value % 3]]
        self._created.append((event_id, NAMESPACES[draw.namespace], NAMES[draw.name]))
        self._columns.extend((event_id, column_id(event_id, i)) for i in range(len(columns)))
        return AssetCreated(
            namespace=NAMESPACES[draw.namespace],
            name=NAMES[draw.name],
            description=f"d{draw.value}",
            columns=tuple(columns),
            properties={"p": "q"} if draw.value % 2 else {},
        )

    def _asset(self, draw: Draw) -> tuple[str, str, str]:
        if not self._created:
            return ("no-such-asset", NAMESPACES[draw.namespace], NAMES[draw.name])
        return self._created[-1 - draw.asset % len(self._created)]

    def _of_column(self, draw: Draw) -> tuple[str, str]:
        if not self._columns:
            return ("no-such-asset", "col_none")
        return self._columns[-1 - draw.asset % len(self._columns)]

    def _column(self, draw: Draw) -> Column:
        return Column(name=COLUMNS[draw.name], type="double", description=f"c{draw.value}")


def history(draws: Sequence[Draw], ids: Callable[[], str]) -> list[Step]:
    made = History(ids)
    return [made.step(draw) for draw in draws]
