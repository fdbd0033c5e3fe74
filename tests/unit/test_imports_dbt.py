"""Imports of dbt: what becomes of a project's files in the catalog and in lineage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.app import Workspace
from arco.catalog.governance_events import GovernedValue
from arco.catalog.tables import ASSETS, COLUMNS, AssetRow
from arco.errors import Invalid, NotFound
from arco.imports import commands
from arco.imports.commands import Imported
from arco.imports.dbt_lineage import column_type
from arco.imports.dbt_names import parse_map
from arco.imports.tables import IMPORT_PARTS
from arco.lineage.reader import Node
from arco.state.snapshot import Generation
from arco.state.staging import Staging
from servo.contract.manifest import Asset, ColumnDef, Input
from tests.kit import planning
from tests.kit.deploying import put
from tests.kit.workspace import make_workspace

ARTIFACTS = Path(__file__).parents[2] / "examples" / "dbt" / "target"
"""Of dbt 1.12 with DuckDB; what an import does not read is left out."""
SOURCE = "dbt/jaffle_shop"
ALL = (
    "marts.customers",
    "marts.orders",
    "raw.raw_customers",
    "raw.raw_payments",
    "shop.raw_orders",
    "snapshots.customers_snapshot",
    "staging.stg_customers",
    "staging.stg_orders",
)
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def w() -> Workspace:
    return make_workspace()


@pytest.fixture
def load(w: Workspace, tmp_path: Path) -> Callable[..., Imported]:
    """Import the artifacts, after an edit."""

    def load(
        edit: Edit = lambda manifest: None,
        *,
        catalog: bool = True,
        edit_catalog: Edit = lambda catalog: None,
        **options: Any,
    ) -> Imported:
        paths = []
        for name, change in (("manifest", edit), ("catalog", edit_catalog)):
            artifact = json.loads((ARTIFACTS / f"{name}.json").read_text())
            change(artifact)
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(artifact))
            paths.append(path)
        return w.commands.imports.dbt(paths[0], paths[1] if catalog else None, **options)

    return load


def model(name: str) -> str:
    return f"model.jaffle_shop.{name}"


def asset(w: Workspace, key: str) -> AssetRow:
    snapshot = w.read.snapshot()
    row = snapshot.get(ASSETS, w.read.lineage().names.id(key))
    assert row is not None
    return row


def say(w: Workspace, subject: str, field: str, entry: str = "", value: str = "") -> None:
    each = GovernedValue(field=field, entry=entry, value=value)
    w.commands.governance.change(subject, set=[each])


def sources(w: Workspace, key: str) -> set[tuple[str, str, str, str]]:
    """Column, source, its column, kind."""
    return {
        (row.target_column, row.source, row.source_column, row.kind)
        for row in w.read.lineage().columns(key)
    }


# -- what is imported ---------------------------------------------------------------------


def test_models_sources_seeds_and_snapshots_become_assets(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    done = load()
    assert (done.source, done.nodes, done.added) == (SOURCE, 8, ALL)
    customers = asset(w, "marts.customers")
    assert (customers.kind, customers.description, customers.owners, customers.tags) == (
        "table",
        "Customers with what they have paid",
        ["finance@example.org"],  # of the group
        {"nightly": "", "finance": ""},
    )
    assert asset(w, "staging.stg_customers").owners == ["crm@example.org"]  # of meta
    assert asset(w, "staging.stg_customers").kind == "view"
    columns = w.read.snapshot().rows(COLUMNS, customers.asset_id)
    assert [
        (c.name, c.type, c.description, c.declared_by)
        for c in sorted(columns, key=lambda column: column.ordinal)
    ] == [
        ("customer_id", "int", "Key of the customer", "dbt"),
        ("name", "string", "", "dbt"),
        ("email", "string", "", "dbt"),
        ("total", "double", "Paid so far", "dbt"),
        ("orders", "bigint", "", "dbt"),
    ]
    assert [row.tool_version for row in w.read.imports().imports()] == ["1.12.0"]
    assert w.upkeep.rebuild(publish=False).same


def test_lineage_is_that_of_the_compiled_sql(w: Workspace, load: Callable[..., Imported]) -> None:
    load()
    reader = w.read.lineage()
    # An ephemeral model is no asset: what it is made of, its readers are made of.
    assert {(e.source, e.origin) for e in reader.edges("marts.orders")} == {
        ("staging.stg_orders", "dbt"),
        ("raw.raw_payments", "dbt"),
    }
    orders = "staging.stg_orders"
    assert sources(w, "marts.orders") == {
        ("order_id", orders, "order_id", "identity"),
        ("customer_id", orders, "customer_id", "identity"),
        ("status", orders, "status", "identity"),
        ("ordered_on", orders, "ordered_on", "identity"),
        ("amount", "raw.raw_payments", "cents", "aggregation"),
        ("nth", orders, "customer_id", "window"),
        ("nth", orders, "ordered_on", "window"),
        ("", orders, "order_id", "join"),
        ("", orders, "ordered_on", "filter"),
        ("", "raw.raw_payments", "order_id", "join"),
        ("", "raw.raw_payments", "order_id", "group_by"),
    }
    assert [
        (c.method, c.confidence, c.coverage_percent, c.unmapped)
        for key in ("marts.orders", "marts.customers", "snapshots.customers_snapshot")
        if (c := reader.coverage(key)) is not None
    ] == [("dbt", "high", 100, [])] * 3
    hashed = [c for c in reader.columns("staging.stg_customers") if c.target_column == "email_hash"]
    assert [(c.source_column, c.masked) for c in hashed] == [("email", True)]
    assert [str(each.node) for each in reader.impact("raw.raw_payments", "cents")] == [
        "marts.orders.amount",
        "marts.customers.total",
    ]


def test_without_a_catalog_less_is_known_and_nothing_is_wrong(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    load()
    whole = {key: sources(w, key) for key in ALL}
    load(catalog=False)
    for key in ALL:
        assert sources(w, key) <= whole[key]
    assert sources(w, "staging.stg_orders") == whole["staging.stg_orders"]  # it is documented
    coverage = w.read.lineage().coverage("staging.stg_customers")
    assert coverage is not None  # `select *` of a seed whose columns nobody has documented
    assert (coverage.confidence, coverage.coverage_percent) == ("low", 0)


def test_sql_that_cannot_be_parsed_and_python_models_have_assets_without_columns(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["nodes"][model("orders")]["compiled_code"] = "select ((( from"
        manifest["nodes"][model("customers")] |= {"language": "python", "compiled_code": "def"}
        manifest["nodes"][model("stg_orders")]["compiled_code"] = None

    done = load(edit)
    reader = w.read.lineage()
    for key in ("marts.orders", "marts.customers", "staging.stg_orders"):
        assert reader.columns(key) == []
        assert reader.edges(key) != []
    assert done.notes == (
        "1 models have no compiled SQL, and so no column lineage: run `dbt compile`",
    )


# -- again --------------------------------------------------------------------------------


@pytest.mark.parametrize("catalog", [True, False])
def test_the_same_files_change_nothing(
    w: Workspace, load: Callable[..., Imported], catalog: bool
) -> None:
    first = load(catalog=catalog)
    again = load(lambda m: m["metadata"].update(generated_at="later"), catalog=catalog)
    assert (again.changes, again.generation) == (0, first.generation)


def test_what_left_the_project_leaves(w: Workspace, load: Callable[..., Imported]) -> None:
    load()
    say(w, "marts.customers", "tags", "tier", "gold")

    def edit(manifest: dict[str, Any]) -> None:
        del manifest["nodes"][model("customers")]
        orders = manifest["nodes"][model("orders")]
        orders["depends_on"]["nodes"] = [model("stg_orders")]
        orders["compiled_code"] = 'select order_id from "jaffle"."staging"."stg_orders"'

    def edit_catalog(catalog: dict[str, Any]) -> None:
        columns = catalog["nodes"][model("orders")]["columns"]
        catalog["nodes"][model("orders")]["columns"] = {"order_id": columns["order_id"]}

    before = w.read.snapshot().generation
    done = load(edit, edit_catalog=edit_catalog)
    assert (done.removed, done.changed, done.added) == (("marts.customers",), ("marts.orders",), ())
    gone = asset(w, "marts.customers")
    assert (gone.active, gone.description, gone.tags) == (False, "", {"tier": "gold"})
    reader = w.read.lineage()
    assert (reader.edges("marts.customers"), reader.columns("marts.customers")) == ([], [])
    assert reader.coverage("marts.customers") is None
    assert [row.target for row in reader.dependents("raw.raw_payments")] == []
    assert sources(w, "marts.orders") == {
        ("order_id", "staging.stg_orders", "order_id", "identity")
    }
    active = [
        row.name
        for row in w.read.snapshot().rows(COLUMNS, asset(w, "marts.orders").asset_id)
        if row.status == "Active"
    ]
    assert active == ["order_id"]
    earlier = w.read.lineage(Generation(before))
    assert len(earlier.columns("marts.customers")) == 7
    back = load()
    assert back.added == ("marts.customers",)
    assert asset(w, "marts.customers").asset_id == gone.asset_id
    assert asset(w, "marts.customers").tags == {"nightly": "", "finance": "", "tier": "gold"}
    assert w.upkeep.rebuild(publish=False).same


def test_a_relation_that_moves_is_the_same_asset(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    load()
    before = asset(w, "marts.orders")

    def edit(manifest: dict[str, Any]) -> None:
        """Two models swap their names, and a third one moves."""
        nodes = manifest["nodes"]
        nodes[model("orders")]["alias"] = "customers"
        nodes[model("customers")]["alias"] = "orders"
        nodes[model("stg_orders")]["schema"] = "silver"

    done = load(edit)
    assert done.moved == (
        "marts.customers -> marts.orders",
        "marts.orders -> marts.customers",
        "staging.stg_orders -> silver.stg_orders",
    )
    after = asset(w, "marts.customers")
    assert (after.asset_id, after.previous_names) == (before.asset_id, ["orders"])
    assert load(edit).changes == 0
    assert w.upkeep.rebuild(publish=False).same


def test_an_asset_that_was_dropped_comes_back(w: Workspace, load: Callable[..., Imported]) -> None:
    load()
    w.commands.catalog.drop_asset("marts.customers")
    assert load().changed == ("marts.customers",)
    assert asset(w, "marts.customers").active
    assert len(sources(w, "marts.customers")) == 7


def test_an_import_ends(w: Workspace, load: Callable[..., Imported]) -> None:
    load()
    assert w.commands.imports.remove(SOURCE).removed == ALL
    assert not any(row.active for row in w.read.snapshot().all(ASSETS))
    with pytest.raises(NotFound, match="nothing was imported from dbt/jaffle"):
        w.commands.imports.remove("dbt/jaffle")
    assert load().added == ALL


def test_a_dry_run_changes_nothing(w: Workspace, load: Callable[..., Imported]) -> None:
    before = w.read.snapshot().generation
    assert load(dry_run=True).added == ALL
    assert w.read.snapshot().generation == before


# -- beside code and people ---------------------------------------------------------------


def test_what_code_and_people_say_comes_before_dbt(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    columns = (ColumnDef(name="id", type="bigint", description="of code"),)
    made = planning.asset("shop.raw_orders", description="of code", columns=columns)
    put(w, made)
    load()
    say(w, "marts.customers", "description", value="of people")
    say(w, "marts.customers", "owners", "ana")
    assert asset(w, "shop.raw_orders").description == "of code"
    assert asset(w, "marts.customers").description == "of people"
    assert asset(w, "marts.customers").owners == ["ana", "finance@example.org"]
    view = w.read.governance().view("shop.raw_orders")
    assert [(v.value, v.source, v.in_effect) for v in view.values] == [
        ("of code", "code", True),
        ("One row for each order", "dbt", False),
    ]
    # Code that says nothing any more leaves the word to dbt; dbt that does, to nobody.
    put(w, planning.asset("shop.raw_orders", columns=columns))
    assert asset(w, "shop.raw_orders").description == "One row for each order"
    assert asset(w, "shop.raw_orders").project == "main"
    assert load().changes == 0
    w.commands.imports.remove(SOURCE)
    assert asset(w, "shop.raw_orders").description == ""
    assert asset(w, "shop.raw_orders").active
    assert w.upkeep.rebuild(publish=False).same


def test_an_asset_of_code_keeps_its_own_lineage(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    put(w, *orders_in_code())
    done = load()
    assert done.notes == ("marts.orders is made by code: what dbt makes it of is not imported",)
    reader = w.read.lineage()
    assert [(e.source, e.origin) for e in reader.edges("marts.orders")] == [("app.events", "code")]
    # Its readers in dbt are known all the same.
    assert "marts.customers" in {row.target for row in reader.dependents("marts.orders")}
    put(w, *orders_in_code()[:1])  # code gives it up, and dbt makes it
    assert load().changed == ("marts.orders",)
    edges = w.read.lineage().edges("marts.orders")
    assert [e.origin for e in edges].count("dbt") == 2


def orders_in_code() -> list[Asset]:
    return [
        planning.asset("app.events"),
        planning.asset("marts.orders", Input(asset="app.events", parameter="events")),
    ]


def test_deployed_code_takes_an_imported_asset_over(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    load()
    before = asset(w, "marts.orders").asset_id
    put(w, *orders_in_code())
    assert asset(w, "marts.orders").asset_id == before
    load()
    edges = w.read.lineage().edges("marts.orders")
    assert [(e.source, e.origin) for e in edges] == [("app.events", "code")]


def test_a_second_project_refers_to_assets_of_the_first(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    load()

    def edit(manifest: dict[str, Any]) -> None:
        """Another project, which has a model of the first one as its source."""
        manifest["metadata"]["project_name"] = "reports"
        shared = manifest["nodes"][model("customers")] | {
            "unique_id": "source.reports.marts.customers",
            "resource_type": "source",
            "description": "As others see it",
            "compiled_code": None,
        }
        report = manifest["nodes"][model("stg_orders")] | {
            "unique_id": "model.reports.report",
            "alias": "report",
            "depends_on": {"nodes": ["source.reports.marts.customers"]},
            "compiled_code": 'select email as mail from "jaffle"."marts"."customers"',
        }
        manifest["sources"] = {"source.reports.marts.customers": shared}
        manifest["nodes"] = {"model.reports.report": report}

    assert load(edit, catalog=False).added == ("staging.report",)
    assert asset(w, "marts.customers").description == "Customers with what they have paid"
    assert [e.source for e in w.read.lineage().edges("staging.report")] == ["marts.customers"]

    def both(manifest: dict[str, Any]) -> None:
        manifest["metadata"]["project_name"] = "copy"

    with pytest.raises(Invalid, match="which dbt/jaffle_shop has imported"):
        load(both)


# -- names --------------------------------------------------------------------------------


def test_names_are_made_to_fit_and_told(w: Workspace, load: Callable[..., Imported]) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["nodes"][model("orders")] |= {"schema": "Marts EU", "alias": "2024-orders"}
        manifest["nodes"][model("customers")]["alias"] = "顧客"

    done = load(edit)
    assert "marts_eu.t_2024_orders" in done.added
    assert done.normalised == {"jaffle.marts eu.2024-orders": "marts_eu.t_2024_orders"}
    assert done.refused == {
        model("customers"): "jaffle.marts.顧客 has no name that a namespace and an asset can have"
    }


def test_schemas_are_mapped_to_namespaces(w: Workspace, load: Callable[..., Imported]) -> None:
    done = load(namespaces=parse_map(["jaffle.marts=gold", "raw=landing"]))
    assert {key.partition(".")[0] for key in done.added} == {
        *("gold", "landing", "shop", "snapshots", "staging")
    }
    for bad in ("marts", "=x", "marts=Not A Name"):
        with pytest.raises(Invalid):
            parse_map([bad])


def test_two_relations_with_one_key_are_refused(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["nodes"][model("orders")] |= {"database": "other", "alias": "customers"}

    with pytest.raises(Invalid, match="would both be the asset"):
        load(edit)
    assert w.read.snapshot().generation == 0


# -- files that cannot be imported --------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a manifest of dbt"),
        ("{", "is not a manifest of dbt"),
        ("[]", "is not a manifest of dbt"),
        ('{"metadata": {}}', "is not a file of dbt"),
        ((ARTIFACTS / "catalog.json").read_text(), "of another kind: catalog"),
        (
            '{"metadata": {"dbt_schema_version": '
            '"https://schemas.getdbt.com/dbt/manifest/v12.json"}, "nodes": [], "sources": {}}',
            "its content is invalid",
        ),
        (
            (ARTIFACTS / "manifest.json").read_text().replace("manifest/v12", "manifest/v13"),
            "of version v13",
        ),
        (
            (ARTIFACTS / "manifest.json").read_text().replace("manifest/v12", "manifest/v4"),
            "of version v4",
        ),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(
    w: Workspace, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)
    with pytest.raises(Invalid, match=message):
        w.commands.imports.dbt(path)
    assert w.read.snapshot().generation == 0


def test_a_catalog_of_another_project_is_refused(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    with pytest.raises(Invalid, match="describes nothing of this manifest"):
        load(edit_catalog=lambda catalog: catalog.update(nodes={}, sources={}))


def test_models_that_depend_on_each_other_are_refused(
    w: Workspace, load: Callable[..., Imported]
) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["nodes"][model("stg_orders")]["depends_on"] = {"nodes": [model("customers")]}

    with pytest.raises(Invalid, match="depend on each other"):
        load(edit)


@pytest.mark.parametrize("version", [10, 11])
def test_older_versions_are_imported(load: Callable[..., Imported], version: int) -> None:
    def edit(manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        metadata["dbt_schema_version"] = metadata["dbt_schema_version"].replace(
            "v12", f"v{version}"
        )
        del metadata["project_name"]

    assert load(edit).added == ALL


# -- size and races -----------------------------------------------------------------------


def test_a_large_import_is_in_parts(
    w: Workspace, load: Callable[..., Imported], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "ASSETS_AT_ONCE", 3)
    monkeypatch.setattr(commands, "PART_BYTES", 1_500)
    monkeypatch.setattr(commands, "NODES_AT_ONCE", 2)
    assert load().added == ALL
    assert w.read.snapshot().all(IMPORT_PARTS) == []
    assert len(sources(w, "marts.orders")) == 11
    assert w.commands.imports.remove(SOURCE).removed == ALL
    assert w.upkeep.rebuild(publish=False).same


def test_who_takes_a_name_meanwhile_keeps_it(
    w: Workspace, load: Callable[..., Imported], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import finds that asset, and describes it instead of one of its own."""
    put_parts = Staging.put
    created: list[str] = []

    def race(*arguments: Any) -> None:
        put_parts(*arguments)
        if not created:
            w.commands.catalog.create_namespace("marts")
            done = w.commands.catalog.create_asset("marts.orders", description="of people")
            created.append(done.event_id)

    monkeypatch.setattr(Staging, "put", race)
    load()
    row = asset(w, "marts.orders")
    assert ([row.asset_id], row.description, row.imported_from) == (created, "of people", SOURCE)
    assert len(sources(w, "marts.orders")) == 11
    targets = {link.target for link in w.read.lineage().downstream("marts.orders")}
    assert targets == {Node("marts.customers")}
    assert w.upkeep.rebuild(publish=False).same


def test_types_of_databases_are_spelled_as_ours() -> None:
    assert [
        column_type(text, dialect)
        for text, dialect in (
            ("NUMBER(38,0)", "snowflake"),
            ("character varying(20)", "postgres"),
            ("INT64", "bigquery"),
            ("TIMESTAMP_NTZ(9)", "snowflake"),
            ("geography", "snowflake"),
            ("what is this", "duckdb"),
            (None, "duckdb"),
        )
    ] == [
        "decimal(38,0)",
        "string",
        "bigint",
        "timestamp_ntz",
        "geography",
        "what is this",
        "",
    ]
