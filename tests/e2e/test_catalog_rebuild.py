"""What the catalog knows holds after a rebuild, on both engines.

A workspace in which every table of the catalog has rows loses all of them; a rebuild folds the
log again, and every row and every answer is as before.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.app import Workspace, chain
from arco.catalog.events import AssetObserved
from arco.log.commit import publish
from arco.spark.rebuild import SparkRebuildEngine
from arco.state.rebuild import Rebuild
from arco.state.table import Table
from tests.e2e.conftest import Servo
from tests.kit.depth import deep_only
from tests.kit.spark_task import spark_session
from tests.kit.workspace import emptied

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DOMAINS = ("catalog", "lineage", "search", "ingest", "security", "answers", "quality")
EMPTY = {"catalog.import_parts", "security.ended_sessions"}
"""Parts of an import are there while it goes on; sessions are those of a browser."""
ARTIFACTS = Path(__file__).parents[2] / "examples" / "dbt" / "target"
FIRST = """
import pyarrow as pa

from servo import AssetIn, asset, column, contract, namespace, row_count

namespace("crm", owners=["crm@example.org"], description="Customers.")
TOWNS = [column("town", "string"), column("people", "long")]


@asset(
    namespace="crm",
    columns=[
        column("id", "long", nullable=False),
        column("mail", "string", pii="email"),
        column("town", "string"),
    ],
    owners=["ana@example.org"],
)
def customers() -> pa.Table:
    return pa.table({"id": [1, 2], "mail": ["a@x", "b@x"], "town": ["Bonn", "Ulm"]})


@asset(namespace="marts", deprecated="use marts.towns", checks=[row_count(min=1)])
def mails(customers: AssetIn["crm.customers"]) -> pa.Table:
    return customers.arrow().select(["mail"])


@asset(namespace="marts", columns=TOWNS)
def towns(customers: AssetIn["crm.customers"]) -> pa.Table:
    town = customers.arrow()["town"]
    return pa.table({"town": town, "people": [1] * len(town)})


@asset(namespace="marts")
def report(towns: AssetIn["marts.towns"], mails: AssetIn["marts.mails"]) -> pa.Table:
    return towns.arrow()


contract(towns, version="1.0.0", consumers=["finance@example.org"], columns=TOWNS, key="town")
"""
SECOND = (
    FIRST.replace('column("town", "string"),\n', 'column("city", "string", renamed_from="town"),\n')
    .replace('"town": ["Bonn", "Ulm"]', '"city": ["Bonn", None]')
    .replace('customers.arrow()["town"]', 'customers.arrow()["city"]')
    .replace("def mails(", "def contacts(")
    .replace('deprecated="use', 'renamed_from="marts.mails", deprecated="use')
    .replace('mails: AssetIn["marts.mails"]', 'contacts: AssetIn["marts.contacts"]')
    .replace('version="1.0.0"', 'version="1.1.0"')
)
THIRD = (
    SECOND.replace(', column("people", "long")]', "]")
    .replace(', "people": [1] * len(town)', "")
    .replace('version="1.1.0"', 'version="2.0.0"')
)
PROMISE = """
apiVersion: v3.1.0
kind: DataContract
id: contacts
version: 1.0.0
status: active
schema:
- name: web.visitors
  properties:
  - name: visitor
    logicalType: string
"""
REPORTED = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T02:00:00Z",
    "run": {"runId": "0176a8c2-fe01-7439-87e6-56a1a1b4029f"},
    "job": {"namespace": "x", "name": "y"},
    "inputs": [{"namespace": "s3://bucket", "name": "raw/events"}],
    "outputs": [{"namespace": "s3://bucket", "name": "raw/clicks"}],
}
COMMANDS = """
catalog terms create customer --description "Who pays"
catalog set crm.customers --description "Everybody who bought" --owner bob --term customer
catalog set crm --tag area=sales
catalog set crm.customers.mail --pii none --sensitivity internal
catalog withdraw crm.customers owners:bob
catalog deprecate crm.customers "soon"
catalog namespace create web --owner web-team
catalog asset create web.visitors --column visitor:string --column seen:timestamp
schema rename-column web.visitors seen seen_at
catalog set web.visitors.visitor --pii custom:visitor
lineage add web.visitors.visitor crm.customers.mail --owner ops --description "nightly copy"
contracts import promise.yaml
ingest openlineage events.ndjson --dataset-namespace s3://bucket=lake
auth keys create ci --role viewer
roles grant user:ann@example.org editor --namespace crm
"""
QUESTIONS = """
catalog show crm.customers
catalog show crm
catalog terms list
catalog asset list
schema history crm.customers
schema history marts.towns
contracts history marts.towns
contracts list
pii list
pii explain marts.contacts.mail
lineage show marts.report
lineage impact web.visitors.visitor
lineage imports
search mail
search has:pii
search failing
partitions history marts.towns
health
recommend
explain marts.report
audit list
roles list
"""


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    """A workspace with something in every table of the catalog."""
    servo = Servo(tmp_path_factory.mktemp("governed"))
    servo.store.mkdir()
    _act(servo)
    return servo


@pytest.fixture(scope="module")
def answers(governed: Servo) -> dict[str, Any]:
    return _answers(governed)


def _act(servo: Servo) -> None:
    project = servo.directory / "shop.py"
    project.write_text(FIRST)
    servo.json("deploy")
    servo.run("run", "*")
    (servo.directory / "promise.yaml").write_text(PROMISE)
    (servo.directory / "events.ndjson").write_text(json.dumps(REPORTED))
    for line in COMMANDS.strip().splitlines():
        servo.json(*shlex.split(line))
    files = ("--manifest", ARTIFACTS / "manifest.json", "--catalog", ARTIFACTS / "catalog.json")
    servo.json("lineage", "import-dbt", *map(str, files))
    asset_id = servo.json("catalog", "show", "web.visitors")["asset_id"]
    workspace = servo.open()
    workspace.ledger.append([AssetObserved(asset_id=asset_id, row_count=3, size_bytes=64)])
    workspace.committer.commit()
    project.write_text(SECOND)
    servo.json("deploy", "--accept-breaking", "crm.customers.town", "--reason", "a better name")
    servo.run("run", "*")
    project.write_text(THIRD)
    servo.json("deploy", "--accept-breaking", "marts.towns.people", "--reason", "nobody reads it")
    servo.run("run", "*")
    (version,) = servo.json("partitions", "versions", "marts.contacts")["versions"][:1]
    servo.json("quarantine", "add", "marts.contacts", "--reason", "half of it")
    servo.json("quarantine", "release", version["materialization_id"], "--reason", "it was whole")


def _tables(workspace: Workspace) -> list[Table[Any]]:
    return [table for table in workspace.chain.tables if table.domain in DOMAINS]


def _answers(servo: Servo) -> dict[str, Any]:
    answers = {}
    for line in QUESTIONS.strip().splitlines():
        answers[line] = _without_clock(servo.json(*shlex.split(line)))
    return answers


def _without_clock(value: Any) -> Any:
    """A document without what follows from the time at which it is made."""
    match value:
        case dict():
            kept = value.keys() - {"generation", "staleness", "computed_at"}
            return {key: _without_clock(value[key]) for key in kept}
        case list():
            return [_without_clock(each) for each in value]
        case _:
            return value


def _embedded(workspace: Workspace) -> Rebuild:
    return workspace.upkeep.rebuild()


def _on_spark(workspace: Workspace) -> Rebuild:
    session = spark_session(shuffle_partitions="4")
    return workspace.upkeep.rebuild(SparkRebuildEngine(chain, session))


def test_the_history_has_rows_in_every_table(governed: Servo) -> None:
    workspace = governed.open()
    snapshot = workspace.read.snapshot()
    empty = {str(table) for table in _tables(workspace) if not snapshot.all(table)}
    assert empty == EMPTY


@pytest.mark.parametrize(
    "rebuild",
    [_embedded, pytest.param(_on_spark, marks=deep_only)],
    ids=["embedded", "spark"],
)
def test_a_rebuild_gives_every_row_and_every_answer_of_the_catalog_again(
    governed: Servo,
    answers: dict[str, Any],
    tmp_path: Path,
    rebuild: Callable[[Workspace], Rebuild],
) -> None:
    servo = Servo(tmp_path)
    shutil.copytree(governed.store, servo.store)
    workspace = servo.open()
    tables = _tables(workspace)
    rows = {str(table): workspace.read.snapshot().all(table) for table in tables}
    publish(
        workspace.writer.publisher.begin(),
        lambda head: emptied(workspace, head, [str(table) for table in tables], "merge"),
    )
    assert not any(workspace.read.snapshot().all(table) for table in tables)
    rebuilt = rebuild(workspace)
    assert not rebuilt.failures
    assert {difference.table for difference in rebuilt.differences if not difference.same} == {
        name for name, of_table in rows.items() if of_table
    }
    after = workspace.read.snapshot()
    assert {str(table): after.all(table) for table in tables} == rows
    assert _answers(servo) == answers
