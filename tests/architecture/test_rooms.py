"""Each line of the "it never" column of ARCHITECTURE.md is a contract or a test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

from arco.app.domains import EVENTS
from arco.orchestration import actions
from arco.storage.port import Store
from tests.architecture.source import ROOT, modules, nodes, tree, within

LAYERS = "layers, high to low"
RULES: dict[tuple[str, str], str | tuple[str, ...]] = {
    ("`servo/contract`", "imports anything of `arco`"): "servo never imports arco",
    ("`servo`", "imports Spark, Arrow or `arco`"): "servo needs neither Spark nor Arrow",
    ("`arco/columns`", "reads or writes a file"): "columns are no files",
    ("`arco/tasks`", "imports Spark"): "tasks, columns and lineage need no Spark",
    ("`arco/storage`", "knows about events"): LAYERS,
    ("`arco/log`", "knows what a table's rows mean"): LAYERS,
    ("`arco/state`", "knows a domain"): LAYERS,
    ("`arco/catalog`", "does I/O in a fold"): "test_what_decides_does_no_input_and_output",
    (
        "`arco/execution`",
        "imports `orchestration`: the versions that runs still need are passed to it",
    ): LAYERS,
    ("`arco/quality`", "evaluates a check"): LAYERS,
    ("`arco/security`", "knows another domain"): LAYERS,
    ("`arco/imports`", "reads versions or their data"): "imports of projects read no data",
    (
        "`arco/ingest`",
        "imports `execution`: a report is no version",
    ): "external reports make no versions",
    ("`arco/lineage`", "needs Spark"): "tasks, columns and lineage need no Spark",
    (
        "`arco/search`",
        "writes to the store",
    ): "a search writes nothing",
    ("`arco/openlineage`", "writes to the store"): "an OpenLineage export writes nothing",
    (
        "`arco/orchestration`",
        "does I/O when it decides",
    ): "test_what_decides_does_no_input_and_output",
    ("`arco/automation`", "enqueues a task: it requests runs"): LAYERS,
    ("`arco/notifications`", "imports `dispatch`, which sends"): LAYERS,
    ("`arco/answers`", "appends to the log"): "answers do not append",
    ("`arco/transport`", "imports either of them"): LAYERS,
    (
        "`arco/dispatch`",
        "creates an action, or an event that is not the outcome of an operation it performed",
    ): (
        "test_dispatch_makes_no_action_of_its_own",
        "test_dispatch_creates_only_events_of_what_it_performed",
    ),
    ("`arco/worker`", "writes tables"): "workers write no tables",
    (
        "`arco/engine.py`",
        "is imported by a separate orchestrator, worker or server",
    ): (LAYERS, "separate processes use no local engine"),
    (
        "`arco/spark`",
        "imports PySpark before a task asks for Spark",
    ): "test_nothing_imports_pyspark_before_a_task_asks_for_it",
    (
        "`arco/api`",
        "gives a read access to an appender; "
        "writes to the store, except used logins and objects of remote workers",
    ): (
        "reads of the API cannot append",
        "the API writes through commands",
        "test_the_api_writes_only_logins_and_objects_of_workers",
    ),
    (
        "`arco/remote`",
        "opens a store; imports the server",
    ): "what goes through the API opens no store",
    (
        "`ui/`",
        "has a back end of its own; runs scripts of other hosts",
    ): "test_the_page_asks_and_runs_nothing_of_other_hosts",
    ("`arco/app`, `arco/cli`", "are imported by anything else"): LAYERS,
}


def test_every_line_of_the_column_has_its_rule() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Packages")[2]
    table = text.partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \| [^|]+ \| ([^|]+) \|$", table, re.MULTILINE)
    assert set(rows) == RULES.keys()


def test_every_rule_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {each["name"] for each in settings["tool"]["importlinter"]["contracts"]}
    text = "".join(file.read_text("utf-8") for file in (ROOT / "tests/architecture").glob("*.py"))
    tests = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    rules = {
        rule for each in RULES.values() for rule in ((each,) if isinstance(each, str) else each)
    }
    assert rules - contracts - tests == set()


def test_every_package_has_its_line_and_its_layer() -> None:
    packages = {module.split(".")[1] for module in modules() if module.count(".") > 1}
    packages = {name for name in packages if within(f"arco.{name}", *modules())}
    shown = set(re.findall(r"`arco/(\w+)", " ".join(folder for folder, _ in RULES)))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (layers,) = [
        each["layers"]
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["type"] == "layers"
    ]
    layered = set(re.findall(r"arco\.(\w+)", " ".join(layers)))
    folders = {file.parent.name for file in (ROOT / "src/arco").glob("*/__init__.py")}
    assert folders - shown == set()
    assert folders - layered == set()


def test_dispatch_makes_no_action_of_its_own() -> None:
    """It performs those of controllers, which are data: their types are in `match` and in
    annotations, and nothing is called with them or on them."""
    names = {each.__name__ for each in actions.Action.__args__}
    used = {
        (module, node.lineno)
        for module in modules()
        if within(module, "arco.dispatch")
        for node in expressions(tree(module))
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) in names
    }
    assert used == set()


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that are neither in a pattern, nor in an annotation, nor the type of an
    `isinstance`."""
    yield node
    for name, value in ast.iter_fields(node):
        is_pattern = isinstance(node, ast.MatchClass) and name == "cls"
        if is_pattern or name in ("annotation", "returns"):
            continue
        children = value if isinstance(value, list) else [value]
        if name == "args" and isinstance(node, ast.Call) and last_name(node.func) == "isinstance":
            children = children[:1]
        for child in children:
            if isinstance(child, ast.AST):
                yield from expressions(child)


def last_name(node: ast.AST) -> str:
    return ast.unparse(node).rpartition(".")[2]


OUTCOMES = {
    "AttemptLost": "the action `LoseAttempt`",
    "DispatchEnqueued": "the action `Enqueue`",
    "FreshnessObserved": "a search for the newest data of an asset",
    "NotificationAttempted": "a message was sent, or could not be",
    "RunRequestRefused": "a request could not be planned",
    "TaskFinished": "a task could not be enqueued",
    "TasksAdmitted": "the action `AdmitTasks`",
    "TasksCancelled": "the action `CancelTasks`",
    "TimerFired": "the action `FireTimer`",
}
"""The events that dispatch creates, with what it has performed."""


def test_dispatch_creates_only_events_of_what_it_performed() -> None:
    names = {each.__name__ for each in EVENTS}
    created = {
        last_name(node.func)
        for module in modules()
        if within(module, "arco.dispatch")
        for node in nodes(module)
        if isinstance(node, ast.Call)
    }
    assert created & names == OUTCOMES.keys()


WRITES = {"put", "put_parts", "delete", "copy"}
"""The methods of a store that change it."""


def test_the_api_writes_only_logins_and_objects_of_workers() -> None:
    assert {name for name in WRITES if hasattr(Store, name)} == WRITES
    assert {
        module
        for module in modules()
        if within(module, "arco.api")
        for node in nodes(module)
        if isinstance(node, ast.Attribute)
        and node.attr in WRITES
        and last_name(node.value).endswith("store")
    } == {"arco.api.login", "arco.api.work_objects"}


def test_nothing_imports_pyspark_before_a_task_asks_for_it() -> None:
    program = """
import sys, arco.app, arco.engine, arco.worker.execute, arco.spark.host
print([name for name in ("pyspark", "py4j", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_page_asks_and_runs_nothing_of_other_hosts() -> None:
    files = [ROOT / "ui" / "index.html"]
    files += [f for f in (ROOT / "ui" / "src").rglob("*") if f.suffix in (".ts", ".tsx", ".css")]
    assert len(files) > 10
    elsewhere = re.compile(
        r"""(?:src|href)=["']https?:|url\(["']?https?:|(?:from|import|fetch)\W{1,2}["'`]https?:"""
    )
    assert [str(file) for file in files if elsewhere.search(file.read_text("utf-8"))] == []
