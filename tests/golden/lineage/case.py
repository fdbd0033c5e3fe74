"""How golden cases of lineage are written: code, and by hand what comes of it.

A source is written `orders.amount`, which means the column itself; then its kind, where
that is not identity, and `masked`: `customers.email transformation masked`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from arco.lineage.traced import TracedColumns
from servo.contract.task import ColumnSource, Influence

NAMESPACE: Final = "shop"
SCHEMAS: Final = {
    "orders": (
        "order_id long, customer_id long, amount double, day date, status string, note string, "
        "tags array<string>, attrs map<string,string>, address struct<street:string,city:string>"
    ),
    "customers": "id long, name string, email string, region string, referrer long",
}
COLUMNS: Final = {
    "shop.orders": [
        *("order_id", "customer_id", "amount", "day", "status", "note"),
        *("tags", "attrs", "address"),
    ],
    "shop.customers": ["id", "name", "email", "region", "referrer"],
}


@dataclass(frozen=True)
class Case:
    name: str
    columns: Mapping[str, Sequence[str]]
    """Of each column of the output, in order, the sources."""
    influences: Sequence[str] = ()
    unmapped: Sequence[str] = ()
    frame: Callable[[Any], Any] | None = None
    """Given `spark`, `orders`, `customers`, `F` and `Window` as attributes, a frame."""
    sql: str = ""
    """With `{orders}` and `{customers}` for the references."""
    confidence: str = "high"
    """Of each column; several, where they differ."""
    sql_differs: str = ""
    """Why the text of the query says less than the plan, if it does."""
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def expected(self) -> object:
        columns = {name: sorted(map(source, given)) for name, given in self.columns.items()}
        return (columns, sorted(map(source, self.influences)), list(self.unmapped))


def source(text: str) -> ColumnSource:
    place, *rest = text.split()
    asset, _, column = place.partition(".")
    kinds = [word for word in rest if word != "masked"]
    kind = cast(Influence, kinds[0] if kinds else "identity")
    return ColumnSource(f"{NAMESPACE}.{asset}", column, kind, "masked" in rest)


def actual(found: TracedColumns) -> object:
    columns = {each.column: sorted(each.sources) for each in found.columns}
    return (columns, sorted(found.influences), list(found.unmapped))
