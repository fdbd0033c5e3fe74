"""A module above 400 lines has a reason."""

from __future__ import annotations

from tests.architecture.source import modules

MOST_LINES = 400
REASONS = {
    "arco.automation.asset_watch": "one reaction to a commit: what changed, and what waits for it",
    "arco.automation.conditions": "one verdict: what is read, why it would run, what keeps it",
    "arco.catalog.fold": "the fold of one domain: an event, its key and its handler together",
    "arco.catalog.schema_fold": "one fold: outputs, declarations, and what people decide",
    "arco.dispatch.orchestrator": "one loop, with its essay: each step of a tick in its order",
    "arco.orchestration.runs": "the fold of a run: every transition of a run and of its tasks",
    "arco.orchestration.deployments": "the fold of a deployment in parts, and what it installs",
    "arco.orchestration.commands": "one class: all that people ask of runs and deployments",
    "arco.orchestration.events": "the wire types of one domain",
    "arco.orchestration.planner_tasks": "one pass over the graph, from assets to tasks",
    "arco.remote.commands": "one class for each domain: its commands, as requests to the API",
    "arco.remote.documents": "generated: the types of all bodies and answers of the API",
    "arco.remote.methods": "generated: a method for each operation of the API",
    "arco.spark.error_info": "one table of Spark's error classes, and what each means",
    "arco.spark.driver": "one driver and its recovery: whoever reads half misjudges the rest",
    "arco.state.fsck": "every check of a workspace, in the order of the files",
    "arco.state.gc": "one protocol with its essay: what may be deleted, and when",
    "arco.state.warm": "one cache: what is loaded, looked up, changed and dropped",
    "arco.storage.local": "one store: every call with its fsync",
    "arco.transport.queues.objectstore": "one protocol with its essay: claims in the store",
    "arco.worker.attempt": "one attempt, from the request to the result",
    "arco.worker.output": "one output, from what the user returned to files",
    "arco.worker.service": "one worker: its slots, its heartbeat and its end",
    "servo.asset": "one decorator: all its settings, with what each means",
    "servo.contract.manifest": "the wire types of one document",
    "servo.contract.task": "the wire types of a task and its result",
    "servo.declare": "one pass: from a definition to its manifest, with every flaw",
    "servo.reach": "one algorithm; ADR 30 says why it reads compiled code",
}


def test_modules_with_a_reason_are_the_long_ones() -> None:
    lengths = {name: len(file.read_text("utf-8").splitlines()) for name, file in modules().items()}
    long = {name: lines for name, lines in lengths.items() if lines > MOST_LINES}
    assert {name: lines for name, lines in long.items() if name not in REASONS} == {}
    assert REASONS.keys() - long.keys() == set(), "no longer long, or removed"
