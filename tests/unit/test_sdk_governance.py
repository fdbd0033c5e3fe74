"""What code says of namespaces, assets and columns for people: declared, and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servo import SLA, Invalid, asset, column, namespace
from servo.contract.manifest import SlaSpec
from servo.discover import build_manifest, discover
from tests.kit.validation import said

PROJECT = """
from servo import SLA, asset, column, namespace

NAMESPACE = "sales"
namespace("sales", description="Sold", owners=["team"], sla=SLA(availability="99.5"))

@asset(
    sla=SLA(max_age="26h", cron="0 8 * * *", timezone="Europe/Berlin"),
    terms=["order", "order"],
    links={"runbook": "https://wiki.example.org"},
    deprecated="use sales.sold",
    columns=[column("mail", "string", terms=["lead"])],
)
def orders(): ...
"""


def test_what_code_says_is_in_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "sales.py").write_text(PROJECT)
    manifest = build_manifest(discover(tmp_path))
    (orders,), (sales,) = manifest.assets, manifest.namespaces
    assert orders.sla == SlaSpec(max_age_s=93_600, cron="0 8 * * *", timezone="Europe/Berlin")
    assert (orders.terms, orders.columns[0].terms) == (("order",), ("lead",))
    assert orders.links == {"runbook": "https://wiki.example.org"}
    assert orders.deprecated == "use sales.sold"
    assert (sales.name, sales.owners, sales.code.file) == ("sales", ("team",), "sales.py")
    assert sales.sla == SlaSpec(availability="99.5")


@pytest.mark.parametrize(
    "declare",
    [
        lambda: SLA(),
        lambda: SLA(max_age="soon"),
        lambda: SLA(cron="0 8 * * *", availability="99"),
        lambda: SLA(max_age="1h", timezone="Europe/Berlin"),
        lambda: SLA(availability="101"),
        lambda: SLA(availability="often"),
        lambda: SLA(max_age="1h", cron="never"),
        lambda: asset(deprecated="")(lambda: None),
        lambda: asset(deprecated=True)(lambda: None),  # type: ignore[call-overload]
        lambda: asset(sla="1h")(lambda: None),  # type: ignore[call-overload]
        lambda: asset(links={"a": 1})(lambda: None),  # type: ignore[dict-item]
        lambda: column("a", terms="order"),
        lambda: namespace("sales", sla="1h"),  # type: ignore[arg-type]
        lambda: namespace("sales", tags={"a": 1}),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_be_is_refused_where_it_is_declared(declare: Callable[[], object]) -> None:
    with pytest.raises(Invalid) as caught:
        declare()
    assert "test_sdk_governance.py:" in str(caught.value)


def test_problems_of_governance_are_found() -> None:
    @asset(namespace="sales", terms=["No"], links={"x": "ftp://x"}, owners=[" "])
    def orders() -> None: ...

    zone = SLA(max_age="1h", cron="0 8 * * *", timezone="Berlin")
    spaces = [namespace("sales", sla=zone), namespace("sales"), namespace("slaes")]
    problems = said([orders], namespaces=spaces)
    assert len(problems) == 6
    for part in (
        "'No' is not a valid term",
        "the link 'x' is 'ftp://x'",
        "an owner is empty",
        "the namespace 'sales': sla:",
        "the namespace 'sales' is described twice",
        "the namespace 'slaes' has no assets in this project (did you mean 'sales'?)",
    ):
        assert any(part in problem for problem in problems), part
