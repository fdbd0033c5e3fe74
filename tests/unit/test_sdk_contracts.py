"""Contracts in code: what is declared, and what is refused with the reason."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

import servo
from servo import (
    Freshness,
    Invalid,
    Retention,
    check,
    column,
    contract,
    in_range,
    not_null,
    notify,
    references,
    row_count,
)
from servo.contract.contract_version import ContractVersion
from servo.data_contract import ContractDefinition
from servo.project import Project
from servo.validate import contracts_of
from tests.kit.validation import HERE, make, problems, said

COLUMNS = [column("order_id", "bigint", nullable=False), column("amount", "double")]
ORDERS = make("a.orders", columns=COLUMNS)


def promised(asset: Any = "a.orders", **settings: Any) -> ContractDefinition:
    return contract(asset, **{"version": "1.0.0", "columns": COLUMNS[:1], **settings})


def flaws(definition: ContractDefinition, *assets: Any) -> list[str]:
    return said([*(assets or [ORDERS])], contracts=[definition])


def test_the_function_and_the_package_of_that_name_live_together() -> None:
    assert callable(servo.contract)
    package = importlib.import_module("servo.contract")
    assert isinstance(package, ModuleType)
    assert importlib.import_module("servo.contract.keys").AssetKey("a", "b").name == "b"


def test_a_contract_that_fits_its_asset_is_sound() -> None:
    consumer = make("a.report")
    definition = promised(
        ORDERS,
        consumers=[consumer, "finance", "finance@example.org", "other.asset"],
        columns=COLUMNS,
        key="order_id",
        checks=[in_range("amount", min=0), row_count(min=1)],
        freshness=Freshness(max_age="26h"),
        retention=Retention(days=7),
        terms="for reports",
    )
    assert flaws(definition, ORDERS, consumer) == []
    project = Project(HERE, assets=[ORDERS], contracts=[definition])
    (wire,) = contracts_of(project)
    assert (wire.name, wire.version, wire.key) == ("a.orders", "1.0.0", ("order_id",))
    assert wire.code.file.endswith("test_sdk_contracts.py")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": [column("amuont")]}, "promises the unknown column 'amuont'"),
        ({"key": "id", "columns": []}, "promises the unknown column 'id'"),
        ({"key": "amount"}, "has the key column 'amount', which it does not promise"),
        ({"consumers": ["Finance Team"]}, "names the consumer 'Finance Team'"),
        ({"consumers": ["a@b@c"]}, "names the consumer 'a@b@c'"),
        ({"consumers": ["a.reprot"]}, "names the unknown consumer 'a.reprot'"),
        ({"columns": [COLUMNS[0], COLUMNS[0]]}, "promises the column 'order_id' twice"),
        ({"columns": []}, "promises nothing"),
        ({"checks": [not_null("x")]}, "of the unknown column 'x'"),
        ({"checks": [not_null("order_id", severity="warning")]}, "with the severity warning"),
        ({"checks": [not_null("order_id", phase="before")]}, "of inputs"),
        ({"checks": [references("order_id", "a.x.y")]}, "needs more than the asset's own data"),
        ({"checks": [row_count(min=1), row_count(min=2)]}, "two checks that are called"),
        ({"retention": Retention(days=-1)}, "has the retention days=-1"),
    ],
)
def test_what_cannot_be_promised_is_refused(settings: dict[str, Any], message: str) -> None:
    (flaw,) = [each for each in flaws(promised(**settings)) if message in each]
    assert flaw.startswith("the contract of a.orders ")


def test_unknown_assets_and_second_contracts_are_refused_with_file_and_line() -> None:
    (unknown,) = problems([ORDERS], contracts=[promised("a.order")])
    assert unknown.message == "the contract is about the unknown asset 'a.order'"
    assert unknown.hint == "did you mean 'a.orders'?"
    assert unknown.file.endswith("test_sdk_contracts.py") and unknown.line > 1
    (twice,) = problems([ORDERS], contracts=[promised(), promised(version="2.0.0")])
    assert twice.message == "a.orders has two contracts"


def test_what_the_asset_does_not_keep_is_refused() -> None:
    short = make("a.orders", retention=Retention(days=3))
    assert flaws(promised(retention=Retention(days=30)), short) == [
        "the contract of a.orders promises 30 days of versions, and the asset keeps 3 "
        "(write retention=Retention(days=30) on the asset)"
    ]
    slow = make("a.orders", freshness=Freshness(max_age="48h"))
    (text,) = flaws(promised(freshness=Freshness(max_age="24h")), slow)
    assert "promises a different freshness than the asset declares" in text
    renamed = make("a.orders", columns=[column("id", renamed_from="order_id")])
    assert "it was renamed to 'id'" in flaws(promised(), renamed)[0]


def test_versions_have_three_numbers() -> None:
    assert str(ContractVersion.parse("v1.2")) == "1.2.0"
    assert ContractVersion.parse("1.10.0") > ContractVersion.parse("1.9.9")
    with pytest.raises(Invalid, match="'one' is not a valid contract version"):
        promised(version="one")


def test_functions_are_no_promises() -> None:
    @check
    def sane(data: servo.AssetIn) -> bool:
        return True

    with pytest.raises(Invalid, match="'sane' is a function"):
        promised(checks=[sane])


def test_consumers_are_told_of_contracts_alone() -> None:
    rule = notify("r", on="asset_failed", to="consumers")
    assert said([ORDERS], notifications=[rule]) == [
        "'r' notifies consumers, but is not about contracts "
        '(add "contract_breach" to on=, or use to="owners")'
    ]
    breach = notify("s", on=["contract_breach", "recovered"], to="consumers", select="a.orders")
    assert said([ORDERS], notifications=[breach]) == []
