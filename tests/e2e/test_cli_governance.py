"""Governance from the command line: code and people, the glossary, deprecation."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Servo

CODE = """
from servo import SLA, AssetIn, asset, column, namespace

NAMESPACE = "sales"
namespace("sales", owners=["team"], sla=SLA(max_age="26h"))

@asset(description="{text}", owners=["ana"], columns=[column("mail", "string", pii="email")])
def orders(): ...

@asset
def sums(orders: AssetIn): ...
"""


def write(servo: Servo, text: str) -> None:
    folder = Path(servo.directory)
    (folder / "sales.py").write_text(CODE.format(text=text))


def test_people_and_code_speak_of_one_asset(servo: Servo) -> None:
    write(servo, "from code")
    servo.text("deploy")
    servo.text("catalog", "terms", "create", "order", "--description", "A purchase")
    said = servo.text(
        *("catalog", "set", "sales.orders", "--description", "from people", "--owner", "bo"),
        *("--tag", "tier=gold", "--term", "order", "--link", "wiki=https://w", "--sla"),
        *("max_age=2d", "--expected-version", "1"),
    )
    assert said.startswith("set description, sla, owners, terms, tags, links of sales.orders in")
    servo.text("catalog", "set", "sales.orders.mail", "--pii", "none")
    write(servo, "new code")
    servo.text("deploy")
    view = servo.json("catalog", "show", "sales.orders")
    assert view["effective"] == {
        "description": "from people",
        "owners": ["ana", "bo"],
        "tags": {"tier": "gold"},
        "sla": {
            "max_age_s": 172_800,
            "cron": "",
            "timezone": "UTC",
            "availability": "",
            "text": "",
        },
        "terms": ["order"],
        "links": {"wiki": "https://w"},
        "deprecated": "",
    }
    assert [(v["source"], v["value"], v["in_effect"]) for v in view["values"][:2]] == [
        ("code", "new code", False),
        ("people", "from people", True),
    ]
    assert view["columns"][0]["pii"] == "none"
    servo.text("catalog", "withdraw", "sales.orders", "description", "tags", "sla")
    text = servo.text("catalog", "show", "sales.orders")
    assert "new code" in text and "at most 26h old (inherited from sales)" in text
    refused = servo.error("catalog", "withdraw", "sales.orders", "owners:ana", code=5)
    assert (refused["code"], "in the code" in refused["message"]) == ("invalid_value", True)
    refused = servo.error("catalog", "terms", "drop", "order", code=5)
    assert refused["code"] == "term_used"
    assert servo.json("catalog", "terms", "show", "order")["used_by"] == ["sales.orders"]


def test_deprecation_is_told_when_somebody_validates_deploys_and_lists(servo: Servo) -> None:
    write(servo, "text")
    servo.text("deploy")
    servo.text("catalog", "deprecate", "sales.orders", "use sales.sold")
    message = "sales.sums reads sales.orders, which is deprecated: use sales.sold"
    assert message in servo.json("validate")["warnings"][0]["message"]
    write(servo, "other text")
    assert message in servo.json("deploy")["warnings"][0]
    assert "sales.orders (deprecated)" in servo.text("catalog", "asset", "list")
    noted = servo.run("partitions", "status", "sales.orders")
    assert noted.stderr == "note: sales.orders is deprecated: use sales.sold\n"
    servo.text("catalog", "withdraw", "sales.orders", "deprecated")
    assert servo.json("validate")["warnings"] == []
