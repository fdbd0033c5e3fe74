"""Previews of data over HTTP: masked, bounded, and for those who may read data."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.api.reads.preview import MAX_CHARS, MAX_COLUMNS
from arco.catalog.events import Column
from arco.execution.tables import PARTITIONS
from arco.lineage.reader import Node
from arco.orchestration.catalog_names import CatalogNames
from arco.security.permissions import Role
from tests.kit.api import ApiWorld
from tests.kit.lake import Lake

ROWS = pa.table(
    {
        "id": list(range(50)),
        "contact": [f"{n}@x.org" for n in range(50)],
        "text": ["x" * 5_000] * 50,
        "list": [list(range(500))] * 50,
    }
    | {f"c{n}": [n] * 50 for n in range(MAX_COLUMNS)}
)


def _write(lake: Lake, asset: str, rows: pa.Table) -> None:
    lake.make(asset)
    file = BytesIO()
    pq.write_table(rows, file)
    snapshot = lake.w.read.snapshot()
    (row,) = snapshot.rows(PARTITIONS, CatalogNames(snapshot).id(asset))
    for meta in list(lake.w.store.list(row.path)):
        if meta.path.endswith(".parquet"):
            lake.w.store.delete(meta.path)
    lake.w.store.put(f"{row.path}/part-00000.parquet", file.getvalue())


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    """city.recent.contact comes from city.source.mail."""
    lake = Lake()
    _write(lake, "city.recent", ROWS)
    catalog = lake.w.commands.catalog
    catalog.add_column("city.source", Column(name="mail", type="string", pii="email"))
    catalog.add_column("city.recent", Column(name="contact", type="string"))
    lake.w.commands.lineage.add(Node("city.source", "mail"), Node("city.recent", "contact"))
    world = ApiWorld(lake.w)
    yield world
    world.close()


PATH = "/assets/city.recent/preview"


def test_twenty_rows_with_masks(world: ApiWorld) -> None:
    answer = world.owner.get(PATH)
    assert len(answer["rows"]) == 20
    assert answer["masked"] == ["contact"]
    assert {row[1] for row in answer["rows"]} == {"***"}
    assert [row[0] for row in answer["rows"]] == list(range(20))
    assert "@x.org" not in world.owner.send("GET", PATH).text


def test_answers_are_bounded(world: ApiWorld) -> None:
    answer = world.owner.get(PATH)
    assert (len(answer["columns"]), answer["more_columns"]) == (MAX_COLUMNS, 4)
    assert len(answer["rows"][0][2]) == MAX_CHARS + 1
    assert len(answer["rows"][0][3]) == 100
    assert world.owner.send("GET", PATH, params={"limit": 101}).status_code == 400


def test_columns_and_versions_are_chosen(world: ApiWorld) -> None:
    params = {"columns": ["c99", "ID"], "limit": 2, "version": "1"}
    answer = world.owner.send("GET", PATH, params=params).json()
    assert [each["name"] for each in answer["columns"]] == ["c99", "id"]
    assert answer["rows"] == [[99, 0], [99, 1]]
    for wrong in ({"columns": "nothing"}, {"version": "9"}, {"partition": "date=2026-01-01"}):
        assert world.owner.send("GET", PATH, params=wrong).status_code in (400, 404)


def test_what_was_not_personal_then_is_masked_if_it_is_now(world: ApiWorld) -> None:
    generation = world.owner.get(PATH)["generation"]
    world.workspace.commands.catalog.add_column(
        "city.recent", Column(name="text", type="string", pii="name")
    )
    assert world.owner.get(PATH, generation=generation)["masked"] == ["contact", "text"]


def test_bounds_of_what_is_personal_now_are_not_told_of_an_old_generation(world: ApiWorld) -> None:
    before = world.owner.get(PATH)
    columns = world.workspace.commands.catalog
    path = f"/assets/city.recent/versions/{before['materialization_id']}/files"
    compare = {"before": "1", "after": "1", "generation": before["generation"]}

    def bounds() -> list[str]:
        (file,) = world.owner.get(path, generation=before["generation"])["files"]
        compared = world.owner.get("/assets/city.recent/compare", **compare)["columns"]
        return [str(c) for c in (*file["columns"], *compared) if c["name"] == "c98"]

    assert any("98" in each.replace("c98", "") for each in bounds())
    columns.add_column("city.recent", Column(name="c98", type="bigint", pii="phone"))
    assert not [each for each in bounds() if "98" in each.replace("c98", "")]


def test_previews_are_for_those_who_may_read_data(world: ApiWorld) -> None:
    for role, status in ((Role.VIEWER, 403), (Role.OPERATOR, 403), (Role.EDITOR, 200)):
        assert world.client(role, "city").send("GET", PATH).status_code == status
    assert world.client(Role.EDITOR, "other").send("GET", PATH).status_code == 404
