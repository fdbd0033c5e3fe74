"""The Open Data Contract Standard: what is exported is valid, and comes back as it was."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from open_data_contract_standard.model import OpenDataContractStandard

from arco.catalog.odcs_export import to_odcs
from arco.catalog.odcs_import import ImportedContract, from_odcs
from arco.errors import Invalid
from servo import accepted_values, expression, in_range, row_count, unique
from servo.contract.manifest import (
    ColumnDef,
    ContractStatement,
    FreshnessSpec,
    Retention,
)
from tests.kit.datacontract import lint

SCHEMA = jsonschema.Draft201909Validator(
    json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text("utf-8"))
)
CONTRACT = ContractStatement(
    name="sales.orders",
    version="1.2.0",
    description="orders of the shop",
    terms="for reports",
    owner="ana@example.org",
    consumers=("marts.daily", "finance@example.org"),
    columns=(
        ColumnDef(name="id", type="bigint", nullable=False, description="its number"),
        ColumnDef(name="items", type="array<struct<sku:string,price:decimal(10,2)>>"),
        ColumnDef(name="tags", type="map<string,string>"),
        ColumnDef(name="note"),
    ),
    key=("id",),
    checks=(
        row_count(min=1),
        in_range("id", min=0),
        accepted_values("note", ["a", "b"]),
        expression("id > 0"),
    ),
    freshness=FreshnessSpec(max_age_s=26 * 3600, cron="0 6 * * *", timezone="Europe/Berlin"),
    retention=Retention(days=30, versions=3),
)
OTHERS = """
apiVersion: v3.0.2
kind: DataContract
id: 53581432-6c55-4ba2-a65f-72344a91553a
version: 1.1
status: active
domain: seller
description: {purpose: views, limitations: not for fraud}
schema:
  - name: tbl
    physicalName: sales.payments
    properties:
      - {name: ref_dt, logicalType: date, physicalType: date, required: true}
      - {name: rcvr_id, logicalType: string, physicalType: varchar(18), primaryKey: true,
         primaryKeyPosition: 2, unique: true}
      - name: cntry
        logicalType: string
        primaryKey: true
        primaryKeyPosition: 1
        quality:
          - {metric: nullValues, mustBe: 0}
          - {type: text, description: a country}
      - {name: total, logicalType: number, physicalType: NUMERIC MONEY}
    quality:
      - {metric: rowCount, mustBeBetween: [10, 100]}
      - {metric: duplicateValues, mustBe: 0, arguments: {properties: [ref_dt, cntry]}}
      - {type: sql, query: select 1, mustBe: 1}
slaProperties:
  - {property: latency, value: 4, unit: d}
  - {property: retention, value: 3, unit: y}
  - {property: availability, value: 99.9}
team: [{username: ceastwood, role: Owner}]
customProperties: [{property: consumers, value: "marts.daily, finance"}, {property: x, value: 1}]
"""


def valid(document: dict[str, Any]) -> None:
    """By the JSON schema of the standard, and by its own model."""
    SCHEMA.validate(document)
    text = yaml.safe_dump(document)
    assert OpenDataContractStandard.from_string(text).id == document["id"]


def test_an_export_is_valid_and_comes_back_as_it_was() -> None:
    document = to_odcs(CONTRACT, id="01ABC", tenant="acme")
    valid(document)
    again = yaml.safe_load(yaml.safe_dump(document))
    assert from_odcs(again) == ImportedContract(CONTRACT, ())


@settings(max_examples=30)
@given(
    st.builds(
        ContractStatement,
        name=st.just("a.b"),
        version=st.sampled_from(["0.1.0", "1.0.0", "12.3.4"]),
        terms=st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=9).map(
            str.strip
        ),
        consumers=st.lists(st.sampled_from(["a.c", "x@y.z", "team"]), unique=True).map(tuple),
        columns=st.lists(
            st.builds(
                ColumnDef,
                name=st.sampled_from("abc"),
                type=st.sampled_from(["", "bigint", "date", "array<int>", "decimal(9,2)"]),
                nullable=st.booleans(),
            ),
            unique_by=lambda column: column.name,
            min_size=1,
        ).map(tuple),
        checks=st.just((unique("a"),)) | st.just(()),
        freshness=st.none() | st.builds(FreshnessSpec, max_age_s=st.integers(1, 10**6)),
        retention=st.builds(Retention, days=st.integers(0, 900), versions=st.integers(0, 9)),
    )
)
def test_any_contract_comes_back_as_it_was(contract: ContractStatement) -> None:
    document = to_odcs(contract, id="01ABC")
    valid(document)
    assert from_odcs(document).contract == contract


def test_a_document_of_others_is_taken_as_far_as_it_is_enforced() -> None:
    document = yaml.safe_load(OTHERS)
    contract, left_out = from_odcs(document)
    assert contract == ContractStatement(
        name="sales.payments",
        version="1.1.0",
        description="views",
        terms="not for fraud",
        owner="ceastwood",
        consumers=("marts.daily", "finance"),
        columns=(
            ColumnDef(name="ref_dt", type="date", nullable=False),
            ColumnDef(name="rcvr_id", type="varchar(18)"),
            ColumnDef(name="cntry", type="string"),
            ColumnDef(name="total", type="double"),
        ),
        key=("cntry", "rcvr_id"),
        checks=contract.checks,
        freshness=FreshnessSpec(max_age_s=4 * 86_400),
        retention=Retention(days=3 * 365),
    )
    assert [(check.name, check.columns) for check in contract.checks] == [
        ("row_count", ()),
        ("unique(ref_dt, cntry)", ("ref_dt", "cntry")),
        ("unique(rcvr_id)", ("rcvr_id",)),
        ("not_null(cntry)", ("cntry",)),
    ]
    assert contract.checks[0].params == {"min": "10", "max": "100"}
    assert left_out == (
        "domain",
        "slaProperties[2] (availability)",
        "schema[0].quality[2]",
        "schema[0].properties[2].quality[1]",
        "customProperties.x",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "DataProduct"}, "kind is 'DataProduct'"),
        ({"apiVersion": "v2.2.2"}, "apiVersion is 'v2.2.2'"),
        ({"version": "one"}, "'one' is not a valid contract version"),
        ({"version": None}, "the document has no version"),
        ({"nonsense": 1}, "unknown field 'nonsense'"),
        ({"schema": []}, "the document has no schema"),
        ({"schema": [{"name": "a.b"}, {"name": "a.c"}]}, "2 schemas: a.b, a.c"),
        ({"schema": [{"name": "orders"}]}, "'orders', which is not an asset key"),
        ({"schema": [{"name": "a.b", "properties": [{}]}]}, "properties[0] has no name"),
        ({"schema": [{"name": "a.b", "properties": {}, "quality": 1}]}, "quality is 1, not a list"),
        ({"slaProperties": [{"property": "latency", "value": 1, "unit": "moon"}]}, "1 moon"),
        ({"customProperties": [{"property": "consumers", "value": 7}]}, "consumers is 7"),
    ],
)
def test_bad_documents_are_refused_with_the_place(change: dict[str, Any], message: str) -> None:
    document = to_odcs(CONTRACT, id="x") | change
    with pytest.raises(Invalid) as caught:
        from_odcs(document)
    assert message in caught.value.message


def test_one_of_several_schemas_is_chosen() -> None:
    document = to_odcs(CONTRACT, id="x") | {"schema": [{"name": "a.b"}, {"name": "x"}]}
    assert from_odcs(document, schema="x", asset="a.c").contract.name == "a.c"
    with pytest.raises(Invalid, match="no schema 'y'"):
        from_odcs(document, schema="y")
    with pytest.raises(Invalid, match="not an object"):
        from_odcs(["no document"])


@pytest.mark.xdist_group("datacontract")
def test_another_program_accepts_what_is_exported_and_names_what_is_wrong(tmp_path: Path) -> None:
    document = to_odcs(CONTRACT, id="01ABC", tenant="acme")
    file = tmp_path / "contract.yaml"
    file.write_text(yaml.safe_dump(document))
    assert lint(file) == ""
    document["schema"][0]["properties"][0]["logicalType"] = "nonsense"
    file.write_text(yaml.safe_dump(document))
    assert "'nonsense' is not one of" in lint(file)
