"""Schemas at deploy: what would break readers is refused, with who they are."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.schema_reader import SchemaReader, SchemaStamp
from arco.catalog.schema_tables import ACCEPTED_BREAKS
from arco.columns.schema_rules import SHOWN, breaks_of, unpacked_schema
from arco.dispatch.sent_rules import SentRules
from arco.dispatch.versions import CommittedVersions
from arco.errors import Invalid
from arco.execution.events import OutputAccepted
from arco.lineage.events import LineageRecorded
from arco.orchestration import schema_deploy
from arco.orchestration.rule_objects import whole_rule
from arco.orchestration.schema_deploy import BreakAcceptance, SchemaRefused
from arco.storage.port import Mode
from arco.tasks.failure import TaskFailed
from arco.worker.schema_check import schema_results
from servo.contract.manifest import Asset, ColumnDef, Compatibility, Gating
from servo.contract.task import (
    CodeRef,
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    Materialization,
    SchemaRule,
    TaskRequest,
)
from tests.kit.deploying import ARTIFACT, manifest, put
from tests.kit.derived import derived_workspace
from tests.kit.planning import asset, reads

ids = itertools.count(1)


def col(name: str, type: str = "bigint", **settings: Any) -> ColumnDef:
    return ColumnDef(name=name, type=type, **settings)


def infos(schema: str) -> tuple[ColumnInfo, ...]:
    pairs = [text.split(" ", 1) for text in schema.split(", ")]
    return tuple(ColumnInfo(name=name, type=type) for name, type in pairs)


def output(w: Workspace, key: str, schema: str) -> None:
    id = f"M{next(ids)}"
    version = Materialization(
        materialization_id=id,
        asset=key,
        asset_id=w.read.orchestration().asset_id(key),
        partition="",
        run_id="R",
        task_id="t",
        attempt_id=id,
        path="x",
        schema=infos(schema),
    )
    w.ledger.append([w.ledger.event(OutputAccepted(materialization=version))])
    w.committer.commit()


def reader_of(w: Workspace, source: str, column: str, target: str) -> None:
    """That a column of an asset was read."""
    recorded = LineageRecorded(
        asset=target,
        asset_id=w.read.orchestration().asset_id(target),
        materialization_id=f"M{next(ids)}",
        partition="",
        run_id="R",
        task_id="t",
        rows=1,
        bytes=1,
        transform="",
        lineage=Lineage(
            read=(InputRef(asset=source, parameter="p"),),
            columns=(ColumnLineage(column="total", sources=(ColumnSource(source, column),)),),
            method="plan",
        ),
    )
    w.ledger.append([w.ledger.event(recorded)])
    w.committer.commit()


def orders(*columns: ColumnDef, **settings: Any) -> Asset:
    return msgspec.structs.replace(asset("sales.orders", columns=columns), **settings)


READER = asset("marts.daily", reads("sales.orders"))


def deployed(*columns: ColumnDef, **settings: Any) -> Workspace:
    """Deployed, and run once."""
    w = derived_workspace()
    put(w, orders(*columns, **settings), READER)
    if columns:
        output(w, "sales.orders", ", ".join(f"{each.name} {each.type}" for each in columns))
    return w


def refused(w: Workspace, asset: Asset, *accepted: str, reason: str = "") -> list[tuple[str, str]]:
    """What a deployment would break, by column."""
    acceptance = BreakAcceptance(accepted, reason or ("agreed" if accepted else ""))
    try:
        w.commands.orchestration.deploy(
            manifest(asset, READER), ARTIFACT, accept_breaking=acceptance
        )
    except SchemaRefused as error:
        return [(each.column, each.kind) for each in error.breaks]
    return []


def test_a_refusal_names_column_change_version_and_readers() -> None:
    w = deployed(col("id"), col("amount", "double"))
    reader_of(w, "sales.orders", "amount", "marts.daily")
    with pytest.raises(SchemaRefused) as caught:
        put(w, orders(col("id")), READER)
    assert "sales.orders: amount was removed (compared with version 1; read by " in str(
        caught.value
    )
    assert "marts.daily.total" in str(caught.value)
    assert "--accept-breaking sales.orders.amount --reason" in caught.value.hint
    (found,) = caught.value.breaks
    assert (found.version, found.consumers) == (1, ("marts.daily.total",))
    assert w.read.orchestration().current_deployment("main").number == 1  # type: ignore[union-attr]


def test_what_breaks_nobody_is_deployed() -> None:
    w = deployed(col("id", "int"))
    assert refused(w, orders(col("id", "bigint"), col("note", "string"))) == []


@pytest.mark.parametrize(
    ("columns", "breaks"),
    [
        ([col("id", "smallint"), col("n", "string")], [("id", "narrowed")]),
        ([col("id", "int", nullable=False), col("n", "string")], [("id", "made_required")]),
        ([col("id", "int"), col("m", "string", renamed_from="n")], [("n", "renamed")]),
        ([col("id", "int"), col("n", "varchar(10)"), col("new", nullable=False)], None),
    ],
)
def test_each_change_is_told_apart(columns: list[ColumnDef], breaks: Any) -> None:
    w = deployed(col("id", "int"), col("n", "string"))
    expected = [("new", "added_required")] if breaks is None else breaks
    assert refused(w, orders(*columns)) == expected


def test_an_asset_without_an_output_has_no_readers() -> None:
    w = derived_workspace()
    put(w, orders(col("id"), col("note", "string")), READER)
    assert refused(w, orders(col("id", "int"))) == []


def test_mode_policy_and_transitivity_decide() -> None:
    wide, narrow = orders(col("id")), orders(col("id", "int"))

    def rule(asset: Asset, **settings: Any) -> Asset:
        return msgspec.structs.replace(asset, compatibility=Compatibility(**settings))

    w = deployed(col("id"))
    assert refused(w, rule(narrow, mode="backward")) == [("id", "narrowed")]
    assert refused(w, rule(narrow, mode="backward", policy="consumers")) == []
    assert refused(w, rule(wide, mode="forward")) == [("id", "widened")]
    assert refused(w, rule(wide, mode="none")) == []
    # Against each version, not neighbour by neighbour.
    assert refused(w, rule(orders(col("id"), col("x")), mode="none")) == []
    assert refused(w, rule(orders(col("id")), mode="none")) == []
    assert refused(w, rule(orders(col("id"), col("y", "date")), mode="backward")) == []
    again = rule(orders(col("id"), col("y", "date"), col("z")), mode="backward", transitive=True)
    assert refused(w, again) == [("x", "removed")]


def test_with_the_policy_consumers_only_columns_that_are_read_are_protected() -> None:
    rule = Compatibility(policy="consumers")
    w = deployed(col("id"), col("amount", "double"), compatibility=rule)
    reader_of(w, "sales.orders", "amount", "marts.daily")
    assert refused(w, orders(col("amount", "double"), compatibility=rule)) == []
    assert refused(w, orders(col("amount", "int"), compatibility=rule)) == [("amount", "narrowed")]


def test_an_accepted_break_is_recorded_and_holds_until_the_next_version() -> None:
    w = deployed(col("id"), col("amount", "double"))
    assert refused(w, orders(col("id")), "sales.orders.amount", reason="agreed") == []
    (row,) = w.read.snapshot().all(ACCEPTED_BREAKS)
    assert (row.column, row.reason, row.source) == ("amount", "agreed", "deploy")
    assert judged(w, "id bigint") == []
    output(w, "sales.orders", "id bigint")
    output(w, "sales.orders", "id bigint, amount double, note string")
    (result,) = judged(w, "id bigint, note string", transitive=True)
    assert result.message == "amount was removed (compared with version 3)"


def test_an_acceptance_ends_when_the_column_comes_back() -> None:
    whole, without = orders(col("id"), col("amount", "double")), orders(col("id"))
    w = deployed(*whole.columns)
    assert refused(w, without, "sales.orders.amount") == []
    output(w, "sales.orders", "id bigint")
    output(w, "sales.orders", "id bigint, amount double")  # of a run of older code
    assert judged(w, "id bigint") == []
    assert refused(w, whole) == []
    output(w, "sales.orders", "id bigint, amount double")
    assert refused(w, without) == [("amount", "removed")]
    (result,) = judged(w, "id bigint")
    assert result.columns == ("amount",)


@pytest.mark.parametrize(
    ("accepted", "reason", "message"),
    [
        (("sales.orders.amount",), "", "--accept-breaking needs a reason"),
        (("sales.orders",), "x", "'sales.orders' is not a column"),
        (("sales.other.id",), "x", "the project has no asset sales.other"),
        (("sales.orders.ammount",), "x", "sales.orders has no column ammount"),
        (("sales.orders.amount", "sales.orders.id"), "x", "sales.orders.id breaks nothing"),
        ((), "x", "--reason has no effect"),
    ],
)
def test_a_wrong_acceptance_changes_nothing(
    accepted: tuple[str, ...], reason: str, message: str
) -> None:
    w = deployed(col("id"), col("amount"))
    with pytest.raises(Invalid, match=message):
        w.commands.orchestration.deploy(
            manifest(orders(col("id")), READER),
            ARTIFACT,
            accept_breaking=BreakAcceptance(accepted, reason),
        )
    assert w.read.orchestration().current_deployment("main").number == 1  # type: ignore[union-attr]


def test_the_columns_of_a_query_are_known_before_it_runs() -> None:
    w = derived_workspace()

    def query(sql: str) -> Asset:
        inputs = reads("sales.orders")
        plain = asset("marts.daily", msgspec.structs.replace(inputs, parameter="sales.orders"))
        return msgspec.structs.replace(plain, kind="sql", sql=sql, transform=sql)

    source = orders(col("id", "int"), col("amount", "double"), extra="refuse")
    select = 'SELECT {} FROM {{{{ ref("sales.orders") }}}}'
    put(w, source, query(select.format("id, amount")))
    output(w, "marts.daily", "id int, amount double")
    with pytest.raises(SchemaRefused) as caught:
        put(w, source, query(select.format("id")))
    assert [(each.column, each.kind) for each in caught.value.breaks] == [("amount", "removed")]
    with pytest.raises(SchemaRefused) as caught:
        put(w, source, query(select.format("id AS amount, id")))
    assert [(each.column, each.kind) for each in caught.value.breaks] == [("amount", "narrowed")]
    put(w, source, query(select.format("*, id + 1 AS more")))


def test_many_assets_are_judged_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_deploy, "MANY", 0)
    test_a_refusal_names_column_change_version_and_readers()
    test_with_the_policy_consumers_only_columns_that_are_read_are_protected()


# -- at the output ------------------------------------------------------------------------


REQUEST = TaskRequest(
    tenant_id="",
    workspace_id="",
    run_id="R",
    task_id="t",
    plan_id="",
    attempt=1,
    attempt_id="a",
    asset="sales.orders",
    asset_id="",
    code=CodeRef(artifact="", module="", name=""),
    gating=Gating(preset="quarantine"),
)


def judged(w: Workspace, schema: str, **settings: Any) -> list[Any]:
    """What a worker says of an output with this schema."""
    asset_id = w.read.orchestration().asset_id("sales.orders")
    versions = CommittedVersions(w.core.manifests, w.core.files)
    asset = orders(compatibility=Compatibility(**settings))
    rule = versions.schema_rule(asset_id, asset)
    request = msgspec.structs.replace(REQUEST, asset_id=asset_id, schema=rule)
    results = schema_results(request, infos(schema), lambda text: text, w.store)
    return [result for result in results if not result.passed]


def test_an_output_that_breaks_readers_fails_a_check_that_names_them() -> None:
    w = deployed()
    assert judged(w, "id bigint") == []  # nothing came out yet
    output(w, "sales.orders", "id int, amount double, tags array<struct<k:string>>")
    reader_of(w, "sales.orders", "amount", "marts.daily")
    assert judged(w, "id bigint, amount double, tags array<struct<k:string,v:int>>") == []
    (result,) = judged(w, "id int, tags array<struct<v:int>>")
    assert (result.action, result.columns) == ("quarantine", ("amount", "tags"))
    assert result.message == (
        "amount was removed (compared with version 1; read by marts.daily.total); "
        "tags[].k was removed (compared with version 1)"
    )
    assert judged(w, "id int", policy="consumers", mode="backward")[0].columns == ("amount",)
    assert judged(w, "id string", mode="none") == []


def test_a_rule_is_small_and_says_what_it_is_about() -> None:
    w = deployed()
    output(w, "sales.orders", ", ".join(f"column_{n} bigint" for n in range(1_000)))
    asset_id = w.read.orchestration().asset_id("sales.orders")
    rule = CommittedVersions(w.core.manifests, w.core.files).schema_rule(asset_id, orders())
    assert rule is not None and len(rule.packed) < 30_000
    known = unpacked_schema(rule.packed)
    assert breaks_of(known, known.versions[0].columns) == []


def test_a_rule_names_a_few_readers_of_a_column_and_counts_the_others() -> None:
    w = deployed()
    output(w, "sales.orders", "id int, amount double")
    registry = SchemaReader(w.read.snapshot())
    row = registry.registry(w.read.orchestration().asset_id("sales.orders"))
    assert row is not None
    readers = {"amount": tuple(f"m.reader_{n:03d}.total" for n in range(200)), "id": ("m.a.id",)}
    known = registry.baseline(row, Compatibility(), readers)
    assert known is not None
    assert (len(known.consumers["amount"]), known.more_consumers) == (SHOWN, {"amount": 195})
    texts = [str(each) for each in breaks_of(known, ())]
    assert texts[0].endswith("read by m.a.id)") and texts[1].endswith("and 195 more)")


class Rules:
    """What requests have; `looks` counts how often a rule was computed."""

    def __init__(self, w: Workspace) -> None:
        self.looks = 0
        self.w = w
        self.asset_id = w.read.orchestration().asset_id("sales.orders")
        self.sent = SentRules(w.store)

    def schema_rule(self, asset_id: str, asset: Asset) -> SchemaRule | None:
        self.looks += 1
        return self.versions.schema_rule(asset_id, asset)

    def schema_stamp(self, asset_id: str) -> SchemaStamp:
        return self.versions.schema_stamp(asset_id)

    @property
    def versions(self) -> CommittedVersions:
        return CommittedVersions(self.w.core.manifests, self.w.core.files)

    def of(self, *, again: bool) -> SchemaRule:
        rule = self.sent.rule("R", self.asset_id, orders(), self, again)
        assert rule is not None
        return rule


def test_a_large_rule_is_an_object_that_is_put_again_when_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arco.orchestration.rule_objects.INLINE_CHARS", 100)
    w = deployed()
    output(w, "sales.orders", "id int, amount double")
    rules = Rules(w)
    rule = rules.of(again=False)
    assert rule.packed == "" and rule.stored_in is not None
    known = unpacked_schema(whole_rule(w.store, rule).packed)
    assert [each.name for each in known.versions[0].columns] == ["id", "amount"]
    assert (rules.of(again=True), rules.looks) == (rule, 1)
    w.store.put(rule.stored_in.path, b"damaged", Mode.OVERWRITE)
    request = msgspec.structs.replace(REQUEST, schema=rule)
    with pytest.raises(TaskFailed, match="cannot be read"):
        schema_results(request, infos("id string"), lambda text: text, w.store)
    assert (rules.of(again=True), rules.looks) == (rule, 2)
    (result,) = schema_results(request, infos("id string"), lambda text: text, w.store)
    assert set(result.columns) == {"id", "amount"}


def test_a_retried_task_has_another_rule_only_if_the_schema_has_changed() -> None:
    w = deployed()
    output(w, "sales.orders", "id int, amount double")
    rules = Rules(w)
    first = rules.of(again=False)
    assert (rules.of(again=True), rules.looks) == (first, 1)
    output(w, "sales.orders", "id int, amount double, note string")
    assert rules.of(again=False) == first
    assert rules.of(again=True) != first and rules.looks == 2
