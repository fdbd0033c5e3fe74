"""`servo` through the API for who has a role in some namespaces alone.

Every command that works through the API is here. What it prints has nothing of another namespace;
about a thing of one it says what it says about a thing that is not there; about his own, what the
owner of the workspace is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from arco.orchestration.plan import PlanRequest
from arco.security.permissions import Role
from tests.kit.api import SHOP, ApiWorld, Company
from tests.kit.depth import DEEP
from tests.kit.served_api import Printed, ServedApi
from tests.unit.test_api_parity import COMMANDS

FOREIGN: Final = re.compile(
    r"\bhr\b|salar|payday|payroll|badge|people/|\bbob\b|vault|gold", re.IGNORECASE
)
"""What only the other namespaces have."""
MIXED = """
from servo import *

@asset(namespace='shop')
def items() -> None: ...

@asset(namespace='vault', description='all the gold')
def gold(items: AssetIn['shop.items']) -> None: ...

@asset(namespace='shop')
def copy(items: AssetIn['shop.items'], ore: AssetIn['vault.gold']) -> None: ...

vault_opening = schedule('vault_opening', cron='0 4 * * *', selection=[gold])
"""

READS: Final[Mapping[str, tuple[str, ...]]] = {
    "deployments": ("",),
    "plan": ("$asset -p date=2026-01-02", "sales.total", "shop.copy", "*"),
    "runs list": ("", "--asset $asset"),
    "runs show": ("$run", "$both_run"),
    "runs task": ("$run sales.orders -p date=2026-01-02", "$both_run shop.copy"),
    "runs logs": ("$run",),
    "runs outputs": ("$run", "$both_run"),
    "status": ("",),
    "logs": ("$run",),
    "assets": ("",),
    "schedules list": ("",),
    "schedules show": ("$schedule",),
    "schedules preview": ("$schedule",),
    "sensors list": ("",),
    "sensors show": ("$sensor",),
    "automation list": ("",),
    "automation explain": ("$asset",),
    "backfill preview": ("$asset -p date=2026-01-03..2026-01-09",),
    "backfill list": ("",),
    "backfill status": ("$backfill",),
    "requests list": ("",),
    "requests show": ("$request",),
    "freshness": ("",),
    "notifications list": ("",),
    "notifications show": ("nothing",),
    "notifications alerts": ("",),
    "notifications rules": ("",),
    "limits list": ("",),
    "show": ("$asset",),
    "code": ("$asset",),
    "partitions list": ("shops",),
    "partitions status": ("$asset", "shop.copy"),
    "partitions versions": ("$asset",),
    "partitions history": ("$asset -p date=2026-01-02",),
    "partitions files": ("$asset",),
    "compare": ("$asset v_00001 v_00001 -p date=2026-01-02",),
    "checks list": ("$asset",),
    "checks show": ("$asset rows",),
    "quarantine list": ("",),
    "quarantine show": ("$held",),
    "schema show": ("$asset",),
    "schema history": ("$asset",),
    "schema diff": ("$asset",),
    "contracts list": ("",),
    "contracts show": ("$asset",),
    "contracts diff": ("$asset",),
    "contracts history": ("$asset",),
    "contracts check": ("$asset",),
    "contracts export": ("$asset",),
    "lineage show": ("sales.total", "sales.total --down", "shop.copy"),
    "lineage impact": ("sales.orders",),
    "lineage inputs": ("sales.total",),
    "lineage export": ("$run", "$both_run"),
    "lineage imports": ("",),
    "ingest list": ("$asset",),
    "pii list": ("",),
    "pii explain": ("sales.notes.text",),
    "pii suggest": ("$asset",),
    "costs": ("",),
    "explain": ("$asset", "sales.total", "shop.copy", "$run", "$both_run"),
    "health": ("", "$asset"),
    "recommend": ("",),
    "diff": ("1",),
    "search": ("orders", "notes"),
    "catalog show": ("$asset", "sales"),
    "catalog namespace list": ("",),
    "catalog namespace show": ("sales",),
    "catalog asset list": ("",),
    "catalog asset show": ("$asset",),
    "catalog terms list": ("",),
    "catalog terms show": ("nothing",),
    "auth whoami": ("",),
    "auth keys list": ("",),
    "roles list": ("",),
    "roles show": ("subject:ana",),
    "audit list": ("",),
    "audit show": ("1",),
    "audit verify": ("",),
    "audit export": ("",),
    "admin snapshot": ("",),
    "admin diff": ("1",),
    "admin sql": ("SELECT~namespace,name~FROM~catalog.assets", "SELECT~*~FROM~orchestration.tasks"),
    "admin pins": ("",),
}

OF_THE_WORKSPACE: Final = {
    "pause",
    "resume",
    "limits set",
    "limits unset",
    "partitions add",
    "partitions remove",
    "lineage import-dbt",
    "lineage remove-import",
    "notifications retry",
    "catalog terms create",
    "catalog terms update",
    "catalog terms drop",
    "admin log tail",
    "admin log show",
    "deploy",
    "rollback",
    "contracts import",
    "ingest openlineage",
    "roles grant",
    "roles revoke",
}
"""Commands that name no thing of a namespace, or files of this machine."""
WRITES: Final[Mapping[str, str]] = {
    "run": "$asset --remote --detach",
    "runs cancel": "$run",
    "runs retry": "$run",
    "schedules pause": "$schedule",
    "schedules resume": "$schedule",
    "schedules tick": "$schedule",
    "sensors pause": "$sensor",
    "sensors resume": "$sensor",
    "sensors reset": "$sensor",
    "sensors push": "$sensor --id 7",
    "automation pause": "$asset",
    "automation resume": "$asset",
    "backfill create": "$asset",
    "backfill pause": "$backfill",
    "backfill resume": "$backfill",
    "backfill retry": "$backfill",
    "backfill cancel": "$backfill",
    "requests cancel": "$request",
    "quarantine approve": "$held",
    "quarantine reject": "$held",
    "quarantine add": "$asset --reason why",
    "quarantine release": "$held",
    "schema rename-column": "$asset a b",
    "contracts remove": "$asset --reason why",
    "lineage add": "$asset sales.notes",
    "lineage remove": "$asset sales.notes",
    "ingest output": "$asset --id one",
    "ingest check": "$asset unique --passed --id one",
    "catalog set": "$asset --owner ana",
    "catalog withdraw": "$asset description",
    "catalog deprecate": "$asset because",
    "catalog namespace create": "$namespace",
    "catalog namespace update": "$namespace --description x",
    "catalog namespace drop": "$namespace",
    "catalog asset create": "$asset",
    "catalog asset update": "$asset --description x",
    "catalog asset rename": "$asset other",
    "catalog asset drop": "$asset",
    "catalog column add": "$asset c:string",
    "catalog column update": "$asset c --description x",
    "catalog column drop": "$asset c",
    "auth keys create": "name --role viewer --namespace $namespace",
    "auth keys revoke": "$key",
}


class Scoped:
    """A workspace with four namespaces, and a caller who has roles in two of them."""

    def __init__(self) -> None:
        company = Company()
        company.deploy(MIXED, "mixed")
        for selection in (("shop.items", "vault.gold"), ("shop.copy", "hr.salaries")):
            run = company.town.fresh().commands.orchestration.trigger(
                PlanRequest(selection=selection, force=True)
            )
            company.town.settle()
        requests, _ = company.town.fresh().read.orchestration().run_requests(limit=100)
        request = next(row.request_key for row in requests if "sales" in row.selection[0])
        world = ApiWorld(company.town.fresh())
        self.api = ServedApi(world)
        self.caller = world.client(Role.OWNER, "sales", "shop")
        self.owner = world.owner
        self.own = {
            "asset": "sales.orders",
            "namespace": "sales",
            "run": company.sales_run,
            "both_run": run.run_id,
            "backfill": company.sales_backfill,
            "held": company.sales_held,
            "schedule": "main/nightly",
            "sensor": "main/hook",
            "request": request,
        }
        self.foreign = {
            "asset": "hr.salaries",
            "namespace": "hr",
            "run": company.hr_run,
            "held": company.hr_held,
            "schedule": "people/payday",
            "sensor": "people/badge",
            "request": company.hr_request,
            "key": company.hr_key,
        }
        self.absent = {
            "asset": "hx.salaries",
            "namespace": "hx",
            "run": _other(company.hr_run),
            "held": _other(company.hr_held),
            "schedule": "peoplx/payday",
            "sensor": "peoplx/badge",
            "request": "paxroll",
            "key": _other(company.hr_key),
        }

    def servo(self, command: str, arguments: str, things: Mapping[str, str]) -> Printed:
        given = [each.replace("~", " ") for each in arguments.split()]
        named = [re.sub(r"\$(\w+)", lambda match: things[match[1]], each) for each in given]
        return self.api.servo(self.caller, *command.split(), *named, "--json")


def _other(id: str) -> str:
    return id[:-3] + "ZZZ"


@pytest.fixture(scope="module")
def scoped() -> Iterator[Scoped]:
    scoped = Scoped()
    yield scoped
    scoped.api.close()
    scoped.api.world.close()


def test_every_command_that_works_through_the_api_is_here() -> None:
    through_api = {name for name, value in COMMANDS.items() if isinstance(value, tuple)}
    assert through_api == READS.keys() | WRITES.keys() | OF_THE_WORKSPACE


@pytest.mark.parametrize("command", READS)
def test_nothing_of_others_is_printed(scoped: Scoped, command: str) -> None:
    for arguments in READS[command]:
        printed = scoped.servo(command, arguments, scoped.own)
        assert not FOREIGN.search(printed.text), (arguments, printed)
        assert printed.code in (0, 2, 3, 4), (arguments, printed)


SAME: Final = (
    "runs show $run",
    "runs logs $run",
    "runs outputs $run",
    "schedules show $schedule",
    "sensors show $sensor",
    "backfill status $backfill",
    "partitions status $asset",
    "partitions versions $asset",
    "partitions history $asset -p date=2026-01-02",
    "quarantine show $held",
    "lineage inputs sales.total",
    "catalog show $asset",
    "catalog namespace show sales",
    "catalog asset show sales.notes",
    "runs list --asset $asset",
    "checks list $asset",
    "health sales.orders",
)


@pytest.mark.parametrize("line", SAME)
def test_own_things_are_shown_as_to_the_owner_of_the_workspace(scoped: Scoped, line: str) -> None:
    named = re.sub(r"\$(\w+)", lambda match: scoped.own[match[1]], line).split()
    printed = scoped.api.servo(scoped.caller, *named)
    assert printed.code == 0, printed
    assert printed == scoped.api.servo(scoped.owner, *named)


THINGS: Final = re.compile(r"\$(\w+)")
NAMING: Final = {
    **{command: arguments[0] for command, arguments in READS.items()},
    **WRITES,
}


NAMED: Final = [
    name
    for name, arguments in NAMING.items()
    if (thing := THINGS.search(arguments)) and thing[1] not in ("both_run", "backfill")
]


@pytest.mark.parametrize("command", NAMED if DEEP else NAMED[::3])
def test_what_is_of_others_is_as_what_is_not_there(scoped: Scoped, command: str) -> None:
    arguments = NAMING[command].replace(" -p date=2026-01-02", "")
    thing = THINGS.search(arguments)
    assert thing is not None
    of_others = scoped.servo(command, arguments, scoped.foreign)
    absent = scoped.servo(command, arguments, scoped.absent)
    assert of_others.code in (2, 3, 4), of_others
    assert _normal(of_others, scoped.foreign[thing[1]]) == _normal(absent, scoped.absent[thing[1]])


def _normal(printed: Printed, name: str) -> tuple[int, str]:
    """Without the name that was given, also where only its first part is repeated."""
    text = printed.text.replace(name, "X").replace(name.partition(".")[0], "X")
    return printed.code, re.sub(r"[0-9A-HJKMNP-TV-Z]{26}", "ID", text)


def test_lists_have_what_the_caller_sees_of_them(scoped: Scoped) -> None:
    def keys(command: str, field: str, name: str) -> set[str]:
        document = json.loads(scoped.servo(command, "", scoped.own).out)
        return {each[name] for each in document[field]}

    assert keys("catalog namespace list", "namespaces", "namespace") == {"sales", "shop"}
    assert keys("schedules list", "schedules", "schedule_id") == {"main/nightly"}
    runs = json.loads(scoped.servo("runs list", "", scoped.own).out)["runs"]
    mixed = next(run for run in runs if run["run_id"] == scoped.own["both_run"])
    assert mixed["selection"] == []
    deployments = json.loads(scoped.servo("deployments", "", scoped.own).out)["deployments"]
    assert {(each["project"], each["assets"]) for each in deployments} == {
        ("main", 2),
        ("mixed", 2),
    }


@pytest.mark.parametrize("command", ["limits list", "notifications list", "lineage imports"])
def test_what_is_of_the_whole_workspace_is_refused(scoped: Scoped, command: str) -> None:
    printed = scoped.servo(command, "", scoped.own)
    assert (printed.code, printed.out) == (4, "")
    assert "whole workspace" in printed.err


def test_a_project_of_own_namespaces_is_deployed(scoped: Scoped, tmp_path: Path) -> None:
    code = f"{SHOP}\n@asset(namespace='sales')\ndef extra() -> None: ...\n"
    (tmp_path / "flow.py").write_text(code)
    deploy = ("deploy", "--project", str(tmp_path))
    assert scoped.api.json(scoped.caller, *deploy)["added"] == ["sales.extra"]
    refused = []
    for namespace in ("hr", "hx"):
        code = f"from servo import *\n@asset(namespace='{namespace}')\ndef pay() -> None: ...\n"
        (tmp_path / "flow.py").write_text(code)
        refused.append(scoped.api.servo(scoped.caller, *deploy))
    assert refused[0] == refused[1] and refused[0].code == 4


def test_plans_are_made_with_what_is_hidden_and_shown_without(scoped: Scoped) -> None:
    plan = json.loads(scoped.servo("plan", "shop.copy", scoped.own).out)
    tasks = {task["asset"]: task for task in plan["spec"]["tasks"]}
    assert set(tasks) == {"shop.copy"}
    assert tasks["shop.copy"]["action"] == "reuse"  # which depends on vault.gold, too


def test_writes_on_own_things_have_their_effect(scoped: Scoped) -> None:
    def done(line: str) -> Any:
        return scoped.api.json(scoped.caller, *line.split())

    done("catalog asset create sales.more --owner ana --column id:bigint")
    done("catalog asset update sales.more --description text")
    assert done("catalog asset show sales.more")["description"] == "text"
    done("catalog set sales.more --tag tier=gold")
    done("lineage add sales.notes sales.more")
    assert done("lineage show sales.more")["links"]
    done("schedules pause main/nightly")
    assert done("schedules show main/nightly")["state"] == "PAUSED"
    done("schedules resume main/nightly")
    requested = done("schedules tick main/nightly")
    done(f"requests cancel {requested['request_key']}")
    backfill = done("backfill create sales.orders -p date=2026-01-03..2026-01-04 --force")
    done(f"backfill cancel {backfill['backfill_id']}")
    done(f"quarantine approve {scoped.own['held']}")
    created = done("auth keys create own --role viewer --namespace sales")
    assert created["key_id"] in {key["key_id"] for key in done("auth keys list")["keys"]}
    done("catalog asset drop sales.more")


def test_a_look_up_costs_the_same_however_many_rows_there_are(scoped: Scoped) -> None:
    def answered(line: str) -> int:
        before = len(scoped.api.rows_answered)
        assert scoped.api.servo(scoped.caller, *line.split()).code == 0
        return sum(scoped.api.rows_answered[before:])

    lines = ["catalog asset show sales.notes", f"runs show {scoped.own['run']}"]
    before = [answered(line) for line in lines]
    catalog = scoped.api.world.workspace.commands.catalog
    for number in range(60):
        catalog.create_asset(f"sales.many_{number}")
    assert [answered(line) for line in lines] == before
