"""Every command of the catalog: what it does, what it refuses, what it does not accept."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.commands import MAX_COLUMNS
from arco.catalog.events import (
    AssetCreated,
    AssetDeclared,
    AssetObserved,
    AssetRenamed,
    AssetUpdated,
    Column,
    ColumnAdded,
    ColumnUpdated,
    NamespaceCreated,
)
from arco.catalog.fold import DIRECTORY
from arco.catalog.names import MAX_ENTRIES, MAX_TEXT
from arco.catalog.tables import ASSET_STATS, ASSETS
from arco.catalog.tables import COLUMNS as COLUMN_TABLE
from arco.errors import Invalid, NotFound, Refused
from arco.state.fold import Fact, FoldFailure, NoRows, Rows, fold_stage
from arco.storage import paths
from arco.storage.memory import MemoryStore
from servo.contract.keys import AssetKey
from tests.kit.clocks import SimClock
from tests.kit.hooks import HookStore
from tests.kit.model import check_against_model, state_of
from tests.kit.workspace import make_workspace

ORDERS = AssetKey("sales", "orders")
COLUMNS = [Column(name="id", type="int", nullable=False), Column(name="email", type="string")]


@pytest.fixture
def w() -> Workspace:
    w = make_workspace(clock=SimClock(), actor="ana")
    w.commands.catalog.create_namespace("sales", description="d", owners=["ana"], tags={"a": "b"})
    w.commands.catalog.create_asset(ORDERS, columns=COLUMNS, owners=["ana", "bo", "ana"])
    return w


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        call()
    assert str(caught.value)
    return caught.value.code


def test_namespace_is_created_as_asked(w: Workspace) -> None:
    row = w.read.catalog().namespace("sales")
    assert (row.description, row.owners, row.tags, row.properties) == ("d", ["ana"], {"a": "b"}, {})
    assert (row.assets, row.created_by, row.updated_by) == (1, "ana", "ana")
    assert row.created_at == row.updated_at == w.clock.now()


def test_namespace_update_changes_what_is_given_and_nothing_else(w: Workspace) -> None:
    before = w.read.catalog().namespace("sales")
    w.commands.catalog.update_namespace("sales", description="", tags={})
    after = w.read.catalog().namespace("sales")
    assert (after.description, after.tags, after.owners) == ("", {}, before.owners)
    w.commands.catalog.update_namespace("sales", owners=[], properties={"x": "y"})
    after = w.read.catalog().namespace("sales")
    assert (after.owners, after.properties) == ([], {"x": "y"})


def test_namespace_is_refused_twice_and_dropped_only_when_empty(w: Workspace) -> None:
    assert refused(lambda: w.commands.catalog.create_namespace("sales")) == "namespace_exists"
    assert refused(lambda: w.commands.catalog.drop_namespace("sales")) == "namespace_not_empty"
    w.commands.catalog.drop_asset(ORDERS)
    w.commands.catalog.drop_namespace("sales")
    assert w.read.catalog().namespaces() == []
    w.commands.catalog.create_namespace("sales")
    assert w.read.catalog().namespace("sales").description == ""


def test_expected_version_guards_an_update(w: Workspace) -> None:
    version = w.read.catalog().namespace_version("sales")
    w.commands.catalog.update_namespace("sales", description="one", expected_version=version)
    late = lambda: w.commands.catalog.update_namespace(  # noqa: E731
        "sales", description="two", expected_version=version
    )
    assert refused(late) == "version_mismatch"
    assert w.read.catalog().namespace("sales").description == "one"
    asset = w.read.catalog().asset(ORDERS)
    w.commands.catalog.update_asset(ORDERS, description="one", expected_version=asset.version)
    late = lambda: w.commands.catalog.update_asset(  # noqa: E731
        ORDERS, description="two", expected_version=asset.version
    )
    assert refused(late) == "version_mismatch"
    assert w.read.catalog().asset(ORDERS).row.description == "one"


def test_expected_version_guards_a_change_of_a_column(w: Workspace) -> None:
    catalog, governance = w.commands.catalog, w.read.governance
    version = governance().view("sales.orders.email").version
    catalog.update_column(ORDERS, "email", description="one", expected_version=version)
    changes: tuple[Callable[[], object], ...] = (
        lambda: catalog.update_column(ORDERS, "email", description="two", expected_version=version),
        lambda: catalog.rename_column(ORDERS, "email", "mail", expected_version=version),
        lambda: catalog.drop_column(ORDERS, "email", expected_version=version),
    )
    assert [refused(change) for change in changes] == ["version_mismatch"] * 3
    view = governance().view("sales.orders.email")
    assert view.effective["description"] == "one"
    catalog.rename_column(ORDERS, "email", "mail", expected_version=view.version)
    version = governance().view("sales.orders.mail").version
    catalog.drop_column(ORDERS, "mail", expected_version=version)
    assert [column.name for column in w.read.catalog().asset(ORDERS).columns] == ["id"]


def test_asset_is_created_with_its_columns_in_order(w: Workspace) -> None:
    asset = w.read.catalog().asset(ORDERS)
    assert (asset.row.kind, asset.row.format, asset.row.owners) == (
        "table",
        "parquet",
        ["ana", "bo"],
    )
    assert [(c.name, c.type, c.ordinal, c.nullable) for c in asset.columns] == [
        ("id", "int", 0, False),
        ("email", "string", 1, True),
    ]
    assert len({c.column_id for c in asset.columns}) == 2


def test_asset_s_id_is_that_of_the_event_that_made_it(w: Workspace) -> None:
    done = w.commands.catalog.create_asset("sales.items")
    assert w.read.catalog().asset_id(AssetKey("sales", "items")) == done.event_id


def test_asset_name_is_taken_once(w: Workspace) -> None:
    assert refused(lambda: w.commands.catalog.create_asset("sales.orders")) == "name_taken"
    with pytest.raises(NotFound, match="namespace ops"):
        w.commands.catalog.create_asset("ops.orders")
    assert w.read.catalog().namespace("sales").assets == 1


def test_asset_update_changes_what_is_given(w: Workspace) -> None:
    w.commands.catalog.update_asset(
        ORDERS, kind="view", format="delta", location="s3://x", owners=["c"], tags={"t": "u"}
    )
    row = w.read.catalog().asset(ORDERS).row
    assert (row.kind, row.format, row.location) == ("view", "delta", "s3://x")
    assert (row.owners, row.tags, row.description) == (["c"], {"t": "u"}, "")


def test_rename_keeps_id_columns_and_statistics(w: Workspace) -> None:
    before = w.read.catalog().asset(ORDERS)
    w.ledger.append([AssetObserved(asset_id=before.row.asset_id, row_count=5, size_bytes=6)])
    w.commands.catalog.rename_asset(ORDERS, "purchases")
    w.commands.catalog.rename_asset("sales.purchases", "sold")
    after = w.read.catalog().asset(AssetKey("sales", "sold"))
    assert after.row.asset_id == before.row.asset_id
    assert after.row.previous_names == ["orders", "purchases"]
    assert after.columns == before.columns
    assert after.stats is not None and after.stats.row_count == 5
    with pytest.raises(NotFound):
        w.read.catalog().asset(ORDERS)
    w.commands.catalog.create_asset(ORDERS)
    assert refused(lambda: w.commands.catalog.rename_asset(ORDERS, "sold")) == "name_taken"
    assert refused(lambda: w.commands.catalog.rename_asset(ORDERS, "orders")) == "name_taken"


def test_drop_takes_the_columns_with_it_and_frees_the_name(w: Workspace) -> None:
    asset_id = w.read.catalog().asset_id(ORDERS)
    w.commands.catalog.drop_asset(ORDERS)
    assert w.read.snapshot().all(ASSETS) == [] and w.read.snapshot().all(COLUMN_TABLE) == []
    with pytest.raises(NotFound):
        w.read.catalog().asset_by_id(asset_id)
    assert w.read.catalog().namespace("sales").assets == 0
    done = w.commands.catalog.create_asset(ORDERS)
    assert done.event_id != asset_id


def test_columns_are_added_changed_and_dropped(w: Workspace) -> None:
    w.commands.catalog.add_column(ORDERS, Column(name="total", type="double"))
    w.commands.catalog.update_column(
        ORDERS, "email", name="mail", pii="email", sensitivity="restricted"
    )
    w.commands.catalog.drop_column(ORDERS, "id")
    w.commands.catalog.add_column(ORDERS, Column(name="id", type="bigint"))
    found = [(c.name, c.type, c.ordinal, c.pii) for c in w.read.catalog().asset(ORDERS).columns]
    assert found == [
        ("mail", "string", 1, "email"),
        ("total", "double", 2, ""),
        ("id", "bigint", 3, ""),
    ]
    assert refused(lambda: w.commands.catalog.add_column(ORDERS, COLUMNS[0])) == "column_exists"
    assert (
        refused(lambda: w.commands.catalog.update_column(ORDERS, "id", name="mail"))
        == "column_exists"
    )
    w.commands.catalog.update_column(ORDERS, "id", name="id", nullable=False, description="key")
    check_against_model(w)


def test_newest_observation_counts_whatever_order_they_come_in(w: Workspace) -> None:
    asset_id = w.read.catalog().asset_id(ORDERS)
    old, new = (
        w.ledger.event(AssetObserved(asset_id=asset_id, row_count=n, size_bytes=n)) for n in (1, 2)
    )
    for event in (new, old, new):
        w.ledger.append([event])
        w.committer.commit()
    stats = w.read.catalog().asset(ORDERS).stats
    assert stats is not None and (stats.row_count, stats.observed_by) == (2, new.id)


def test_observation_that_comes_after_the_drop_or_twice_brings_no_asset_back(
    w: Workspace,
) -> None:
    asset_id = w.read.catalog().asset_id(ORDERS)
    event = w.ledger.event(AssetObserved(asset_id=asset_id, row_count=1, size_bytes=1))
    w.commands.catalog.drop_asset(ORDERS)
    for _ in range(2):
        w.ledger.append([event])
        w.committer.commit()
    assert w.read.catalog().assets("sales") == []
    with pytest.raises(NotFound):
        w.read.catalog().asset_by_id(asset_id)
    assert [row.observed_by for row in w.read.snapshot().all(ASSET_STATS)] == [event.id]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.update_namespace("slaes"),
        lambda c: c.drop_namespace("slaes"),
        lambda c: c.update_asset("sales.ordres"),
        lambda c: c.rename_asset("sales.ordres", "x"),
        lambda c: c.drop_asset("sales.ordres"),
        lambda c: c.add_column("sales.ordres", COLUMNS[0]),
        lambda c: c.update_column("sales.orders", "emial", type="text"),
        lambda c: c.drop_column("sales.orders", "emial"),
    ],
)
def test_what_does_not_exist_is_not_found_with_a_hint(
    w: Workspace, call: Callable[[object], object]
) -> None:
    before = w.read.snapshot().generation
    with pytest.raises(NotFound) as caught:
        call(w.commands.catalog)
    assert any(word in caught.value.hint for word in ("sales", "orders", "email"))
    assert w.read.snapshot().generation == before


LONG = "x" * (MAX_TEXT + 1)
MANY = {f"k{n}": "v" for n in range(MAX_ENTRIES + 1)}


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.create_namespace("Sales"),
        lambda c: c.create_namespace(""),
        lambda c: c.create_namespace("a.b"),
        lambda c: c.create_namespace("ok", description=LONG),
        lambda c: c.create_namespace("ok", description="\ud800"),
        lambda c: c.create_namespace("ok", owners=[" "]),
        lambda c: c.create_namespace("ok", tags=MANY),
        lambda c: c.create_namespace("ok", tags={"": "x"}),
        lambda c: c.create_namespace("ok", properties={"k": LONG}),
        lambda c: c.update_namespace("sales", description=LONG),
        lambda c: c.update_namespace("sales", owners=[""]),
        lambda c: c.create_asset("orders"),
        lambda c: c.create_asset("sales.Orders"),
        lambda c: c.create_asset("sales.x", kind=LONG),
        lambda c: c.create_asset("sales.x", format=LONG),
        lambda c: c.create_asset("sales.x", location=LONG),
        lambda c: c.create_asset("sales.x", columns=[Column(name="", type="int")]),
        lambda c: c.create_asset("sales.x", columns=[Column(name="a", type="")]),
        lambda c: c.create_asset("sales.x", columns=[Column(name="a", type="int")] * 2),
        lambda c: c.create_asset("sales.x", columns=[Column(name="a", type="int", pii="nose")]),
        lambda c: c.create_asset(
            "sales.x", columns=[Column(name="a", type="int", sensitivity="?")]
        ),
        lambda c: c.create_asset("sales.x", columns=[Column(name=LONG, type="int")]),
        lambda c: c.create_asset("sales.x", columns=[Column(name="a", type=LONG)]),
        lambda c: c.create_asset("sales.x", columns=[Column(name="a", type="t", description=LONG)]),
        lambda c: c.create_asset(
            "sales.x", columns=[Column(name=f"c{n}", type="int") for n in range(MAX_COLUMNS + 1)]
        ),
        lambda c: c.update_asset("sales.orders", kind=LONG),
        lambda c: c.update_asset("sales.orders", format=LONG),
        lambda c: c.update_asset("sales.orders", location=LONG),
        lambda c: c.update_asset("sales.orders", description=LONG),
        lambda c: c.update_asset("sales.orders", tags=MANY),
        lambda c: c.rename_asset("sales.orders", "New Name"),
        lambda c: c.add_column("sales.orders", Column(name="", type="int")),
        lambda c: c.update_column("sales.orders", "id", name=""),
        lambda c: c.update_column("sales.orders", "id", type=""),
        lambda c: c.update_column("sales.orders", "id", pii="nose"),
        lambda c: c.update_column("sales.orders", "id", sensitivity="?"),
        lambda c: c.update_column("sales.orders", "id", description=LONG),
    ],
)
def test_invalid_input_is_refused_before_anything_is_written(
    w: Workspace, call: Callable[[object], object]
) -> None:
    before = w.read.snapshot().generation
    with pytest.raises(Invalid):
        call(w.commands.catalog)
    assert w.read.snapshot().generation == before


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.create_namespace("ops", idempotency_key="k"),
        lambda c: c.create_asset("sales.new", idempotency_key="k"),
        lambda c: c.update_namespace("sales", description="n", idempotency_key="k"),
        lambda c: c.update_asset("sales.orders", description="n", idempotency_key="k"),
        lambda c: c.rename_asset("sales.orders", "sold", idempotency_key="k"),
        lambda c: c.drop_asset("sales.orders", idempotency_key="k"),
        lambda c: c.drop_namespace("empty", idempotency_key="k"),
        lambda c: c.add_column("sales.orders", Column(name="c", type="t"), idempotency_key="k"),
        lambda c: c.update_column("sales.orders", "id", name="key", idempotency_key="k"),
        lambda c: c.drop_column("sales.orders", "id", idempotency_key="k"),
    ],
)
def test_every_command_can_be_repeated_under_its_key(
    w: Workspace, call: Callable[[object], object]
) -> None:
    """A client that got no answer asks again: what it wanted done is done, once."""
    w.commands.catalog.create_namespace("empty")
    first = call(w.commands.catalog)
    generation = w.read.snapshot().generation
    second = call(w.commands.catalog)
    assert second.replayed and not first.replayed  # type: ignore[attr-defined]
    assert second.event_id == first.event_id  # type: ignore[attr-defined]
    assert w.read.snapshot().generation == generation
    check_against_model(w)


# A command means what it names


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.update_asset(ORDERS, description="late"),
        lambda c: c.add_column(ORDERS, Column(name="late", type="int")),
        lambda c: c.update_column(ORDERS, "id", description="late"),
        lambda c: c.drop_column(ORDERS, "id"),
        lambda c: c.rename_asset(ORDERS, "late"),
        lambda c: c.drop_asset(ORDERS),
    ],
)
@pytest.mark.parametrize("replaced", [True, False])
def test_command_is_refused_when_its_name_belongs_to_another_asset_by_then(
    call: Callable[[object], object], replaced: bool
) -> None:
    """Others rename the asset, and create another of that name, before the batch is put."""
    clock = SimClock()
    memory = MemoryStore(clock)
    hooks = HookStore(memory)
    slow, quick = make_workspace(hooks, 1, clock=clock), make_workspace(memory, 2, clock=clock)
    quick.commands.catalog.create_namespace("sales")
    quick.commands.catalog.create_asset(ORDERS, columns=COLUMNS)

    def replace() -> None:
        quick.commands.catalog.rename_asset(ORDERS, "old_orders")
        if replaced:
            quick.commands.catalog.create_asset(ORDERS, columns=COLUMNS)

    hooks.before("put", paths.INBOX, replace)
    assert refused(lambda: call(slow.commands.catalog)) == "asset_not_found"
    for row in quick.read.catalog().assets("sales"):
        asset = quick.read.catalog().asset_by_id(row.asset_id)
        assert row.description == "" and [c.name for c in asset.columns] == ["id", "email"]
        assert [c.description for c in asset.columns] == ["", ""]
    check_against_model(quick)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.update_column(ORDERS, "email", description="late"),
        lambda c: c.drop_column(ORDERS, "email"),
    ],
)
def test_command_is_refused_when_its_column_was_renamed_by_then(
    call: Callable[[object], object],
) -> None:
    clock = SimClock()
    memory = MemoryStore(clock)
    hooks = HookStore(memory)
    slow, quick = make_workspace(hooks, 1, clock=clock), make_workspace(memory, 2, clock=clock)
    quick.commands.catalog.create_namespace("sales")
    quick.commands.catalog.create_asset(ORDERS, columns=COLUMNS)

    def replace() -> None:
        quick.commands.catalog.update_column(ORDERS, "email", name="old_email")
        quick.commands.catalog.add_column(ORDERS, Column(name="email", type="string"))

    hooks.before("put", paths.INBOX, replace)
    assert refused(lambda: call(slow.commands.catalog)) == "column_not_found"
    columns = quick.read.catalog().asset(ORDERS).columns
    assert [(c.name, c.description) for c in columns] == [
        ("id", ""),
        ("old_email", ""),
        ("email", ""),
    ]
    check_against_model(quick)


def test_events_of_the_first_version_are_decided_by_id_alone(w: Workspace) -> None:
    """They are in logs for ever, with the fingerprints that they had."""
    asset_id = w.read.catalog().asset_id(ORDERS)
    w.commands.catalog.rename_asset(ORDERS, "sold")
    event = w.ledger.event(AssetUpdated(asset_id=asset_id, description="new"))
    assert b"asset_key" not in bytes(event.data)
    w.ledger.append([msgspec.structs.replace(event, version=1)])
    w.committer.commit()
    assert w.read.catalog().asset(AssetKey("sales", "sold")).row.description == "new"
    check_against_model(w)


BAD_NAMES = ["../../x", "nul\0", "", "Orders", "x" * 129, "a.b"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_name_that_reaches_the_log_is_refused_by_the_fold(w: Workspace, name: str) -> None:
    """Whoever can write to the inbox need not have used our commands."""
    asset_id = w.read.catalog().asset_id(ORDERS)
    before = state_of(w)
    receipt = w.ledger.append(
        [
            NamespaceCreated(namespace=name),
            AssetCreated(namespace="sales", name=name),
            AssetCreated(namespace=name, name="orders"),
            AssetRenamed(asset_id=asset_id, namespace="sales", name="orders", new_name=name),
        ]
    )
    w.committer.commit()
    after = state_of(w)
    outcomes = after["log.outcomes"]
    assert {outcomes[(key,)][1]["code"] for key in receipt.event_ids} == {"invalid_name"}
    assert {t: rows for t, rows in after.items() if not t.startswith("log.")} == {
        t: rows for t, rows in before.items() if not t.startswith("log.")
    }
    check_against_model(w)


@pytest.mark.parametrize("name", ["", "nul\0", "x" * (MAX_TEXT + 1)], ids=["empty", "nul", "long"])
def test_bad_column_name_that_reaches_the_log_is_refused_by_the_fold(
    w: Workspace, name: str
) -> None:
    asset = w.read.catalog().asset(ORDERS)
    asset_id, column_id = asset.row.asset_id, asset.columns[0].column_id
    column = Column(name=name, type="int")
    receipt = w.ledger.append(
        [
            AssetCreated(namespace="sales", name="other", columns=(column,)),
            ColumnAdded(asset_id=asset_id, column=column),
            ColumnUpdated(asset_id=asset_id, column_id=column_id, name=name),
        ]
    )
    w.committer.commit()
    outcomes = state_of(w)["log.outcomes"]
    assert {outcomes[(key,)][1]["code"] for key in receipt.event_ids} == {"invalid_name"}
    assert w.read.catalog().asset(ORDERS).columns == asset.columns


def test_bad_name_in_a_deployment_is_skipped_and_counted(w: Workspace) -> None:
    fact = Fact(
        9,
        w.clock.now(),
        "E9",
        "E9",
        "",
        AssetDeclared(asset_id="A", namespace="sales", name="../../x"),
    )
    failures: list[FoldFailure] = []
    rows = Rows(NoRows())
    assert fold_stage(DIRECTORY, rows, [fact], failures) == []
    assert rows.changes == {}
    assert [(f.stage, f.position) for f in failures] == [("directory", 9)]
