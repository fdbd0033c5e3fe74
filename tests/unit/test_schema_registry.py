"""The schema registry: which schema is current, who is who among columns, what is accepted."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from arco.app import EVENTS
from arco.catalog import fold as catalog_fold
from arco.catalog.events import (
    AssetDeclared,
    AssetDropped,
    Column,
    ColumnDropped,
    ColumnUpdated,
)
from arco.catalog.governance_events import AssetGoverned, GovernedValue, ValueRef
from arco.catalog.governance_fold import AssetStatements
from arco.catalog.governance_tables import ASSET_STATEMENTS
from arco.catalog.schema_events import BreakAccepted, ColumnRenamed
from arco.catalog.schema_tables import (
    ACCEPTED_BREAKS,
    COLUMN_RENAMES,
    HELD_SCHEMAS,
    SCHEMA_REGISTRY,
    SCHEMA_TABLES,
    SCHEMA_VERSIONS,
    VERSIONS_KEPT,
)
from arco.catalog.tables import COLUMNS, ColumnRow
from arco.execution import fold as execution_fold
from arco.execution.events import (
    OutputAccepted,
    OutputHeld,
    OutputRejected,
    QuarantineDecided,
    RecordedVersion,
    VersionQuarantined,
)
from arco.execution.states import HoldStatus
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.orchestration.derived import DECISIONS
from arco.state import system
from arco.state.fold import Chain, NoRows, fold
from arco.state.system import OUTCOMES
from arco.worker.footers import schema_hash
from servo.contract.task import ColumnInfo, Materialization
from tests.kit.runs import Changes, Folding

COLUMN_COMMANDS = (ColumnRenamed, ColumnUpdated, ColumnDropped, AssetGoverned)
DERIVED = (OutputAccepted, OutputHeld, OutputRejected, AssetDeclared, BreakAccepted)
STAGES = (
    system.admission([QuarantineDecided, VersionQuarantined, AssetDropped, *COLUMN_COMMANDS]),
    *execution_fold.STAGES,
    DECISIONS,
    *catalog_fold.STAGES,
    system.OUTCOME_STAGE,
)
CHAIN = Chain(STAGES, (*EVENTS, *DERIVED))


@pytest.fixture(autouse=True)
def stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kit.runs.CHAIN", CHAIN)


class Registry(Folding):
    """One asset and its outputs."""

    def __init__(self, *columns: Column) -> None:
        super().__init__()
        self.numbers = itertools.count(1)
        self.declare(*columns)

    def declare(self, *columns: Column) -> Changes:
        return self.add(AssetDeclared(asset_id="A", namespace="n", name="a", columns=columns))

    def output(self, schema: str, *, partition: str = "p", id: str = "") -> Changes:
        """`id int, name string!`: a mark says that there is no null in it."""
        return self.add(OutputAccepted(materialization=self.version(schema, partition, id)))

    def version(self, schema: str, partition: str = "p", id: str = "") -> Materialization:
        number = next(self.numbers)
        columns = tuple(map(_info, schema.split(", ")))
        return Materialization(
            materialization_id=id or f"M{number}",
            asset="n.a",
            asset_id="A",
            partition=partition,
            run_id=f"R{number}",
            task_id="t",
            attempt_id=f"a{number}",
            path="x",
            schema=columns,
            schema_hash=schema_hash(columns),
        )

    def hold(self, schema: str, id: str) -> Changes:
        held = self.version(schema, "p", id)
        return self.add(OutputHeld(materialization=held, status=HoldStatus.BLOCKED, reason="x"))

    def quarantine(self, id: str, previous: str = "") -> None:
        rows = {row.materialization_id: row for row in self.all(MATERIALIZATIONS)}
        version, *before = [
            RecordedVersion(
                **{name: getattr(rows[each], name) for name in RecordedVersion.__struct_fields__}
            )
            for each in (id, previous)
            if each
        ]
        command = VersionQuarantined(
            asset_id="A",
            asset="n.a",
            version=version,
            previous=before[0] if before else None,
            partition_version=self.rows[PARTITIONS]["A", version.partition_key][0],
        )
        self.fold([self.record(command, key=f"k{self.position}", actor="ana")])
        assert self.all(OUTCOMES)[-1].code == ""

    def decide(self, id: str, approved: bool = True, reason: str = "") -> Changes:
        command = QuarantineDecided(
            asset_id="A", materialization_id=id, approved=approved, reason=reason
        )
        return self.fold([self.record(command, key=f"k{self.position}", actor="ana")])

    def rename(self, old: str, new: str, reason: str = "") -> str:
        return self.command(ColumnRenamed, old, new_name=new, reason=reason)

    def command(self, kind: Any, column: str, *, column_id: str = "", **change: Any) -> str:
        command = kind(
            asset_id="A",
            asset_key="n.a",
            column_id=column_id or self.column(column).column_id,
            column_name=column,
            **change,
        )
        self.fold([self.record(command, key=f"k{self.position}", actor="ana")])
        return self.all(OUTCOMES)[-1].code

    def classify(self, name: str, pii: str) -> None:
        command = ColumnUpdated(asset_id="A", column_id=self.column(name).column_id, pii=pii)
        self.fold([self.record(command, key=f"k{self.position}", actor="ana")])

    def assert_rebuilt(self) -> None:
        whole = fold(CHAIN, NoRows(), self.log).changes
        for table in (*SCHEMA_TABLES, COLUMNS):
            alive = {key: row for key, row in whole.get(table, {}).items() if row[1] is not None}
            rows = {key: row for key, row in self.rows.get(table, {}).items() if row[1] is not None}
            assert alive == rows

    def column(self, name: str) -> ColumnRow:
        (row,) = [row for row in self.all(COLUMNS) if row.name == name]
        return row

    @property
    def current(self) -> int:
        return self.all(SCHEMA_REGISTRY)[0].current

    def shown(self) -> dict[str, Any]:
        return {row.name: (row.status, row.actual_type) for row in self.all(COLUMNS)}


def _info(text: str) -> ColumnInfo:
    name, type = text.split(" ", 1)
    full = type.endswith("!")
    return ColumnInfo(name=name, type=type.removesuffix("!"), nulls=0 if full else None)


def touched(changes: Changes) -> set[str]:
    return {str(table) for table in changes if table in (*SCHEMA_TABLES, COLUMNS)}


def test_outputs_of_one_schema_register_it_once() -> None:
    f = Registry()
    assert "catalog.schema_versions" in touched(f.output("id int, name string"))
    assert touched(f.output("id int, name string", partition="a")) == {"catalog.schema_registry"}
    for partition in "abc":
        assert touched(f.output("id int, name string", partition=partition)) == set()
    (version,) = f.all(SCHEMA_VERSIONS)
    assert (version.version, version.run_id, version.current) == (1, "R1", True)


def test_a_repeated_or_late_output_makes_no_older_schema_current() -> None:
    f = Registry()
    f.output("id int", id="M1")
    f.output("id bigint", id="M2")
    f.output("id int", id="M1")  # adopted by another attempt
    f.add(OutputRejected(materialization=f.version("id string"), reason="late"))
    assert (f.current, len(f.all(SCHEMA_VERSIONS))) == (2, 2)


def test_a_held_output_registers_nothing_until_it_is_approved() -> None:
    f = Registry()
    f.output("id int, name string")
    assert touched(f.hold("id int", "H1")) == {"catalog.held_schemas", "catalog.schema_registry"}
    f.hold("id string", "H2")
    f.decide("H2", approved=False)
    assert (f.current, len(f.all(SCHEMA_VERSIONS))) == (1, 1)
    f.decide("H1", reason="agreed")
    assert (f.current, f.all(HELD_SCHEMAS)) == (2, [])
    assert f.shown() == {"id": ("Active", "int"), "name": ("Inactive", "")}
    (accepted,) = f.all(ACCEPTED_BREAKS)
    assert (accepted.column, accepted.up_to_version, accepted.reason) == ("name", 1, "agreed")


def test_an_approved_output_is_not_newer_than_what_came_out_since() -> None:
    f = Registry()
    f.output("id int")
    f.hold("id bigint", "H1")
    f.output("id int", partition="q")
    f.decide("H1")
    versions = {row.version: row.current for row in f.all(SCHEMA_VERSIONS)}
    assert (f.current, versions) == (1, {1: True, 2: False})


@pytest.mark.parametrize("partition", ["", "p"])
def test_the_schema_before_a_quarantined_version_is_current_again_until_it_is_released(
    partition: str,
) -> None:
    f = Registry()
    f.output("a bigint, b int", partition=partition, id="M1")
    f.output("a string", partition=partition, id="M2")
    f.quarantine("M2", "M1")
    assert f.current == 1 and [row.current for row in f.all(SCHEMA_VERSIONS)] == [True, False]
    assert f.shown() == {"a": ("Active", "bigint"), "b": ("Active", "int")}
    f.decide("M2")
    assert f.current == 2
    assert f.shown() == {"a": ("Active", "string"), "b": ("Inactive", "")}
    f.quarantine("M2", "M1")
    f.output("a bigint, b int", partition=partition)
    f.decide("M2")
    assert (f.current, len(f.all(SCHEMA_VERSIONS)), f.all(HELD_SCHEMAS)) == (1, 2, [])
    f.assert_rebuilt()


def test_versions_that_are_quarantined_one_after_the_other_lead_back_to_the_first_schema() -> None:
    f = Registry()
    for id, schema in [("M1", "a int"), ("M2", "a string"), ("M3", "a string"), ("M4", "a date")]:
        f.output(schema, partition="", id=id)
    f.quarantine("M4", "M3")
    assert f.current == 2
    f.quarantine("M2")  # it is not current
    f.quarantine("M3", "M1")
    assert f.current == 1
    f.decide("M3")
    assert f.current == 2
    f.decide("M4")
    assert f.current == 3
    f.assert_rebuilt()


def test_a_schema_that_other_partitions_have_stays_current() -> None:
    f = Registry()
    f.output("a int", partition="p", id="M1")
    f.output("a string", partition="p", id="M2")
    f.output("a string", partition="q", id="M3")
    f.quarantine("M2", "M1")
    assert f.current == 2


def test_a_column_that_comes_back_has_its_id() -> None:
    f = Registry()
    f.output("id int, name string, more string")
    before = f.column("name").column_id
    f.output("id int")
    gone = f.column("name")
    assert (gone.status, gone.last_version) == ("Inactive", 1)
    f.output("id int, x date, name bigint")
    back = f.column("name")
    assert (back.column_id, back.status, back.actual_type) == (before, "Active", "bigint")


def test_a_schema_that_comes_back_is_the_version_that_it_was() -> None:
    f = Registry()
    f.output("id int")
    f.output("id int, name string")
    f.output("id int", partition="q")
    assert (f.current, len(f.all(SCHEMA_VERSIONS))) == (1, 2)
    assert f.shown() == {"id": ("Active", "int"), "name": ("Inactive", "")}


def test_a_declared_rename_keeps_the_id_and_is_governed() -> None:
    f = Registry(Column(name="amt", type="double"))
    f.output("id int, amt double")
    before = f.column("amt").column_id
    f.declare(Column(name="amount", type="double", renamed_from="amt"))
    f.output("id int, amount double")
    assert f.column("amount").column_id == before
    (rename,) = f.all(COLUMN_RENAMES)
    assert (rename.change_type, rename.changed_in_version) == ("GovernedRename", 4)


def test_a_declared_rename_is_out_with_the_version_that_was_declared() -> None:
    f = Registry(Column(name="amt", type="double"))
    f.output("amt double")
    f.declare(Column(name="amount", type="double", renamed_from="amt"))
    f.output("amount double")
    (rename,) = f.all(COLUMN_RENAMES)
    assert rename.changed_in_version == 2


def test_a_commanded_rename_takes_effect_with_the_output() -> None:
    f = Registry()
    f.output("id int, amt double, note string")
    before = f.column("amt").column_id
    assert f.rename("amt", "amount", "one word") == ""
    assert f.column("amt").renaming_to == "amount"
    f.output("amount double, id int, note string")
    assert (f.column("amount").column_id, f.column("amount").renaming_to) == (before, "")
    (rename,) = f.all(COLUMN_RENAMES)
    assert (rename.change_type, rename.reason, rename.changed_in_version) == (
        "GovernedRename",
        "one word",
        2,
    )
    assert [row.column for row in f.all(ACCEPTED_BREAKS)] == ["amt"]


def test_a_column_that_left_and_one_that_came_may_be_said_to_be_one() -> None:
    f = Registry()
    f.output("id int, amt double")
    before = f.column("amt").column_id
    f.output("id int, more string, amount decimal(10,2)")
    assert f.column("amount").column_id != before
    assert f.rename("amt", "amount") == ""
    assert f.column("amount").column_id == before
    current = next(row for row in f.all(SCHEMA_VERSIONS) if row.current)
    assert before in [each.column_id for each in current.decoded_columns()]
    f.output("id int, more string, amount decimal(12,2)")
    assert f.column("amount").column_id == before


def test_a_rename_onto_a_column_that_exists_changes_nothing() -> None:
    f = Registry(Column(name="id", type="int"))
    f.output("id int, amt double, note string")
    columns = f.all(COLUMNS)
    assert f.rename("amt", "note") == "column_exists"
    assert f.rename("id", "key") == "asset_deployed"
    assert f.rename("amt", "") == "invalid_name"
    assert f.all(COLUMNS) == columns


def test_a_column_whose_id_a_rebuild_has_changed_is_found_by_its_name() -> None:
    registry = Registry()
    registry.output("email string, phone string, left int")
    pii = GovernedValue(field="pii", value="email")
    assert not registry.command(AssetGoverned, "email", column_id="col_other", set=(pii,))
    assert registry.column("email").pii == "email"
    assert not registry.command(ColumnRenamed, "left", column_id="col_other", new_name="right")
    assert registry.column("left").renaming_to == "right"
    pii_ref = ValueRef(field="pii")
    assert not registry.command(AssetGoverned, "email", column_id="col_other", withdraw=(pii_ref,))
    assert not registry.column("email").pii


def test_an_update_or_drop_means_the_very_column() -> None:
    registry = Registry()
    registry.output("phone string")
    other = {"column_id": "col_other"}
    assert registry.command(ColumnUpdated, "phone", pii="phone", **other) == "column_not_found"
    assert registry.command(ColumnDropped, "phone", **other) == "column_not_found"
    assert registry.column("phone").pii == ""


def test_a_type_or_nullability_that_a_person_gives_declares_the_column() -> None:
    registry = Registry()
    registry.output("id int, name string")
    assert not registry.command(ColumnUpdated, "id", type="bigint")
    assert not registry.command(ColumnUpdated, "name", nullable=False)
    id, name = registry.column("id"), registry.column("name")
    assert (id.type, id.declared_by, id.difference) == ("bigint", "person", "type")
    assert (name.type, name.nullable, name.declared_by) == ("string", False, "person")


def test_what_is_said_of_the_oldest_columns_goes_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arco.catalog.column_rows.INACTIVE_KEPT", 1)
    registry = Registry()
    registry.output("a int, b int, c int, d int")
    for name in "abcd":
        registry.command(ColumnUpdated, name, description=f"the {name}")
    registry.output("d int")
    said: list[str] = []
    say = AssetStatements.say

    def counted(self: AssetStatements, source: Any, values: Any) -> None:
        said.append(source)
        say(self, source, values)

    monkeypatch.setattr(AssetStatements, "say", counted)
    registry.output("d bigint")
    assert said == ["code", "people", "dbt"]  # at once, however many columns go
    assert {row.name for row in registry.all(COLUMNS)} == {"c", "d"}
    (statement,) = registry.all(ASSET_STATEMENTS)
    assert set(statement.values.values()) == {"the c", "the d"}


def test_an_inferred_rename_is_marked() -> None:
    f = Registry()
    f.output("id int, amt double")
    before = f.column("amt").column_id
    f.output("id int, total double")
    assert f.column("total").column_id == before
    assert [row.change_type for row in f.all(COLUMN_RENAMES)] == ["InferredRename"]
    current = next(row for row in f.all(SCHEMA_VERSIONS) if row.current)
    assert [str(each) for each in current.decoded_changes()] == [
        "amt was renamed to total (inferred)"
    ]


@pytest.mark.parametrize("pii", ["email", "none"])
def test_what_is_said_of_a_column_stays_with_its_name(pii: str) -> None:
    f = Registry()
    f.output("id int, email string")
    f.classify("email", pii)
    f.output("id int, city string")
    assert f.column("city").pii == ""
    f.output("id int, city string, email string")
    assert {row.name: row.pii for row in f.all(COLUMNS)} == {"id": "", "city": "", "email": pii}
    assert f.all(COLUMN_RENAMES) == []


def test_columns_show_what_is_declared_what_is_there_and_where_they_differ() -> None:
    f = Registry(Column(name="id", type="INTEGER"), Column(name="sum", type="double"))
    f.declare(Column(name="id", type="INTEGER"), Column(name="sum", type="double"))
    f.output("id int, note string")
    assert {row.name: row.difference for row in f.all(COLUMNS)} == {
        "id": "",
        "sum": "missing",
        "note": "undeclared",
    }
    f.output("id int, sum bigint, note string")
    assert f.column("sum").difference == "type"
    f.declare(Column(name="id", type="INTEGER"))
    assert f.column("sum").difference == "undeclared"
    f.output("id int")
    assert (f.column("sum").status, f.column("id").status) == ("Inactive", "Active")


def test_a_column_without_nulls_stays_not_null_whoever_writes_it() -> None:
    f = Registry(Column(name="id", type="int", nullable=False))
    f.output("id int!")
    (version,) = f.all(SCHEMA_VERSIONS)  # what is declared came out
    assert (version.current, version.declared, version.source) == (True, True, "declaration")
    f.output("id int!", partition="q")
    assert touched(f.output("id int!", partition="r")) == set()
    f.output("id int", partition="r")
    assert [str(each) for each in f.all(SCHEMA_VERSIONS)[1].decoded_changes()] == [
        "id may be null now"
    ]


def test_an_asset_keeps_few_versions_and_the_current_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    f = Registry(Column(name="c1", type=""))
    for number in range(VERSIONS_KEPT + 20):
        f.output(f"c{number} int, d{number} string", partition=str(number))
    numbers = [row.version for row in f.all(SCHEMA_VERSIONS)]
    assert (numbers[0], len(numbers)) == (1, VERSIONS_KEPT + 1)  # what is declared stays
    assert sorted(f.all(SCHEMA_REGISTRY)[0].hashes.values()) == numbers
    monkeypatch.setattr("arco.catalog.column_rows.INACTIVE_KEPT", 5)
    f.output("a int, b string, c int")
    inactive = [row.last_version for row in f.all(COLUMNS) if row.status == "Inactive"]
    assert len(inactive) == 5 + 2 and min(inactive) > VERSIONS_KEPT  # two more left just now


def test_a_dropped_asset_has_no_schemas() -> None:
    f = Registry()
    f.output("id int")
    f.hold("id string", "H1")
    dropped = AssetDropped(asset_id="A", namespace="n", name="a")
    f.fold([f.record(dropped, key="drop")])
    assert [f.all(table) for table in (*SCHEMA_TABLES, COLUMNS)] == [[]] * 6
    f.output("id int", partition="q")  # of a run that was active
    assert f.all(SCHEMA_VERSIONS) == []


def test_one_batch_gives_the_same_rows_as_many() -> None:
    f = Registry(Column(name="id", type="int"))
    f.output("id int, amt double")
    f.add(BreakAccepted(asset_id="A", column="amt", reason="x", deployment_id="D"))
    f.rename("amt", "amount")
    f.output("id int, amount double")
    f.hold("id int", "H1")
    f.decide("H1")
    f.assert_rebuilt()
