"""Personal data, its policy, and edges of people, from the command line."""

from __future__ import annotations

from tests.e2e.conftest import Servo

PROJECT = """
import pyarrow as pa
from servo import AssetIn, asset, column

NAMESPACE = "shop"

@asset(columns=[column("email", "string", pii="email"), column("phone", "string")])
def people() -> pa.Table:
    return pa.table({"email": ["a@x.org"], "phone": ["+49 30 1234567"]})

@asset(personal_data="refuse")
def mails(people: AssetIn) -> pa.Table:
    return people.arrow()
"""


def test_an_output_with_undeclared_personal_data_is_held_until_somebody_says_what_it_is(
    servo: Servo,
) -> None:
    code = servo.directory / "shop.py"
    code.write_text(PROJECT)
    assert servo.json("run", "shop.*", "--deploy", code=1)["tasks_held"] == 1
    (held,) = servo.json("quarantine", "list")["outputs"]
    assert "email gets email of shop.people.email" in held["reason"]
    (suggested,) = servo.json("pii", "suggest", "shop.people", "--samples")["suggestions"]
    assert (suggested["column"], suggested["pii"]) == ("phone", "phone")
    assert suggested["recognizer"] == "phone/1"

    declared = '@asset(personal_data="refuse", columns=[column("email", "string", pii="none")])'
    code.write_text(PROJECT.replace('@asset(personal_data="refuse")', declared))
    assert servo.json("run", "shop.mails", "--deploy")["state"] == "SUCCEEDED"
    explained = servo.json("pii", "explain", "shop.mails.email")
    assert (explained["pii"], explained["own"]["pii"]) == ([], "none")
    assert explained["stopped"][0]["source"] == "shop.people.email"
    assert [c["asset"] for c in servo.json("pii", "list")["columns"]] == ["shop.people"]


def test_an_edge_of_a_person_is_shown_followed_and_removed(servo: Servo) -> None:
    servo.json("catalog", "namespace", "create", "crm")
    for name in ("contacts", "people"):
        servo.json("catalog", "asset", "create", f"crm.{name}", "--column", "mail:string")
    ends = ("crm.contacts.mail", "crm.people.mail")
    servo.json("lineage", "add", *ends, "--owner", "ops", "--description", "by night")
    (edge,) = servo.json("lineage", "show", "crm.people")["edges"]
    assert (edge["source"], edge["origin"], edge["owner"], edge["description"]) == (
        "crm.contacts",
        "manual",
        "ops",
        "by night",
    )
    assert "added by tester, owner ops: by night" in servo.text("lineage", "show", "crm.people")
    down = servo.text("lineage", "show", "crm.contacts", "--down")
    assert "crm.people: added by tester, owner ops: by night" in down
    assert "crm.people (rows)  data  (not deployed)" in down
    unknown = servo.error("lineage", "show", "crm.peple", code=3)
    assert unknown["message"] == "there is no asset crm.peple"
    assert unknown["hint"] == "did you mean 'crm.people'?"
    (reached,) = servo.json("lineage", "impact", "crm.contacts.mail")["impact"]
    assert (reached["asset"], reached["column"]) == ("crm.people", "mail")
    refused = servo.run("lineage", "add", "crm.people", "crm.contacts")
    assert refused.returncode and "create a cycle" in refused.stderr
    servo.json("lineage", "remove", "crm.contacts", "crm.people")
    assert servo.run("lineage", "show", "crm.people").returncode
