"""What `arco.open` shows of personal data."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from operator import methodcaller

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.catalog.events import Column
from arco.errors import Invalid
from arco.execution.tables import PARTITIONS
from arco.lineage.reader import Node
from arco.notebook import masked_expressions
from arco.open_workspace import OpenWorkspace
from arco.orchestration.catalog_names import CatalogNames
from arco.state.snapshot import Generation
from tests.kit.lake import Lake

html = methodcaller("_repr_html_")
ROWS = pa.table({"id": [1, 2], "contact": ["a@x.org", None]})


@pytest.fixture
def lake() -> Lake:
    """city.recent.contact comes from city.source.mail."""
    lake = Lake()
    lake.make("city.recent")
    file = BytesIO()
    pq.write_table(ROWS, file)
    snapshot = lake.w.read.snapshot()
    (row,) = snapshot.rows(PARTITIONS, CatalogNames(snapshot).id("city.recent"))
    for meta in list(lake.w.store.list(row.path)):
        if meta.path.endswith(".parquet"):
            lake.w.store.delete(meta.path)
    lake.w.store.put(f"{row.path}/part-00000.parquet", file.getvalue())
    catalog = lake.w.commands.catalog
    catalog.add_column("city.source", Column(name="mail", type="string", pii="email"))
    catalog.add_column("city.recent", Column(name="contact", type="string"))
    return lake


def test_personal_values_are_masked_unless_revealed(lake: Lake) -> None:
    before = lake.w.read.snapshot().generation
    lake.w.commands.lineage.add(Node("city.source", "mail"), Node("city.recent", "contact"))
    lake.clock.advance(timedelta(hours=1))
    lake.w.commands.catalog.update_column("city.recent", "contact", name="address")
    for ws in (OpenWorkspace(lake.w), OpenWorkspace(lake.w, Generation(before))):
        table = ws.table("city.recent")
        assert table.arrow().to_pydict() == {"id": [1, 2], "contact": ["***", "***"]}
        assert table.masked == ("contact",) and "masked: contact" in html(table)
        twice = ws.table("city.recent", columns=["CONTACT", "contact"]).arrow()
        assert [column.to_pylist() for column in twice.columns] == [["***", "***"]] * 2
        assert ws.table("city.recent", reveal=True).arrow().equals(ROWS)


def test_queries_have_no_personal_columns_unless_revealed(lake: Lake) -> None:
    lake.w.commands.lineage.add(Node("city.source", "mail"), Node("city.recent", "contact"))
    ws = OpenWorkspace(lake.w)
    assert ws.sql("SELECT * FROM city.recent").arrow().column_names == ["id"]
    with pytest.raises(Invalid) as raised:
        ws.sql("SELECT contact FROM city.recent")
    assert "left out: city.recent.contact; see reveal=True" in str(raised.value)
    assert ws.sql("SELECT * FROM city.recent", reveal=True).arrow().equals(ROWS)


def test_masks_in_spark_stand_in_the_place_of_the_columns() -> None:
    names = ["id", "Mail", "a`b"]
    assert masked_expressions(names, {"mail"}) == ["`id`", "'***' AS `Mail`", "`a``b`"]
